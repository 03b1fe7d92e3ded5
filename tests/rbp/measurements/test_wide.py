"""Tables as people have them: read as the same numbers in our own form, or refused with the line that helps."""

import math

import pytest

from rbp.errors import DataError
from rbp.measurements import open_source

SIZES = (14e6, 70e6, 160e6, 410e6, 1e9, 1.4e9)
LOSSES, ACCURACIES = (3.9, 3.3, 3.0, 2.7, 2.5, 2.4), (0.3, 0.35, 0.38, 0.42, 0.45, 0.46)
SHORT = ("14M", "70m", "0.16B", "410 M", "1.0b", "1400000k")


def read(folder, header, *columns):
    path = folder / "runs.csv"
    rows = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([header, *rows]) + "\n")
    return open_source(path).table


@pytest.mark.parametrize(
    ("header", "sizes"),
    [
        ("Name,State,n_params,train/tokens,eval/loss,eval/accuracy", SIZES),
        ("run name,x,Params,y,test/nll,RBP_1", SHORT),
    ],
)
def test_a_wide_table_is_read(tmp_path, header, sizes):
    table = read(tmp_path, header, "abcdef", ["x"] * 6, sizes, [10**9] * 6, LOSSES, ACCURACIES)
    entropy, shares = (table[table["metric"] == each] for each in ("cross_entropy", "neg_log_rbp"))
    assert entropy["size"].tolist() == [int(size) for size in SIZES]
    assert entropy["value"].tolist() == list(LOSSES)
    assert entropy["model"].tolist() == list("abcdef")
    assert shares["value"].tolist() == pytest.approx([-math.log(share) for share in ACCURACIES])
    assert (shares["k"] == 1).all()


@pytest.mark.parametrize(("column", "k"), [("top10_accuracy", 10), ("eval/rbp_100", 100)])
def test_shares_at_k_and_perplexities_are_converted(tmp_path, column, k):
    table = read(tmp_path, f"params,{column},valid_ppl", SIZES, ACCURACIES, [math.exp(loss) for loss in LOSSES])
    assert table[table["metric"] == "cross_entropy"]["value"].tolist() == pytest.approx(LOSSES)
    shares = table[table["metric"] == "neg_log_rbp"]
    assert (shares["k"] == k).all()
    assert shares["value"].tolist() == pytest.approx([-math.log(share) for share in ACCURACIES])


REFUSED = {
    "millions, with fractions": ("params,loss", [14.5, 70.5], [3, 2], "a size of 14.5", "14500000000"),
    "no size": ("weights,loss", [14e6, 70e6], [3, 2], "no column is the size", "sed -i '1s/weights/size/' runs.csv"),
    "no measure": ("params,score", [14e6, 70e6], [3, 2], "no column is a measure", "cross_entropy"),
    "underscores": ("params,loss", [14e6, 70e6], ["3_0.1", 2], "value is not a number: '3_0.1'", ""),
    "percent": ("params,acc", [14e6, 70e6], [30.0, 35], "metric acc must be one of", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_line_that_helps(tmp_path, name):
    header, sizes, values, what, remedy = REFUSED[name]
    with pytest.raises(DataError) as error:
        read(tmp_path, header, sizes, values)
    assert what in str(error.value)
    assert remedy in str(error.value)


GROWING, FALLING = (1e6, 1e6, 1e7, 1e8, 1e9), (3, 2.5, 2, 1.5, 1)
SLIPS = {
    "two units": ("abcde", (1e6, 1e7, 1e8, 1000, 10000), FALLING, "are 1,000 to 100,000,000: are all in one unit"),
    "an owner": (("org/m0", "m0", "a", "b", "c"), GROWING, FALLING, "org/m0 and m0 look like one"),
    "a perplexity": ("abcde", GROWING, (19.7, 15, 12, 9, 8), "is it a perplexity"),
    "seeds": (("m-seed0", "m-seed1", "a", "b", "c"), GROWING, FALLING, ""),
}


@pytest.mark.parametrize("name", SLIPS)
def test_probable_slips_are_said(tmp_path, name, caplog):
    *columns, words = SLIPS[name]
    assert len(read(tmp_path, "model,size,loss", *columns)) == 5
    slips = [each for each in caplog.messages if "?" in each or "look like" in each]
    assert len(slips) == bool(words)
    assert all(words in each for each in slips)
