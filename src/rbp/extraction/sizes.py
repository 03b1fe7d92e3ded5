"""S, the size of a model as the paper counts it."""

from torch import nn


def non_embedding_params(model: nn.Module) -> int:
    """S: all parameters but the input, output and learned position embeddings (the paper's section 3.2).

    A weight that is shared (a tied output layer) counts once, and not at all where it is an embedding. Layers
    that bring embeddings to the width of the model, as in OPT-350m, are no embeddings. Works on the meta
    device. Gives the authors' `non_embedding_params` for their 24 models.
    """
    embeddings: list[nn.Module] = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = getattr(model, "get_output_embeddings", lambda: None)()
    if isinstance(output, nn.Module):
        embeddings.append(output)
    left_out = {id(parameter) for module in embeddings for parameter in module.parameters()}
    # `parameters` gives a shared one once
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in left_out)
