import pytest

from companion.execute.prose import NO_VALUE, all_or_none, fill_in
from companion.execute.results import Recorded


def test_values_are_written_out_as_plain_text():
    values = {
        "k1": {"alpha.x": Recorded(-0.07931), "who": Recorded("a*b_c"), "n": Recorded(5305), "p": Recorded(3.1e-11)}
    }
    text = "{value}`alpha.x:.3f` {value}`k1::who` {value}`n:,` {value}`p:.0e`"
    assert fill_in(text, "k1", values) == "−0.079 a\\*b\\_c 5,305 3·10⁻¹¹"
    assert fill_in("{value}`n:,`", "04_k2", values) == NO_VALUE


def test_counts_are_written_in_words_or_out_of_a_whole():
    values = {"k1": {key: Recorded(n) for key, n in {"few": 3, "all": 12, "many": 1300, "share": 0.31}.items()}}
    text = "{value}`few:words` {value}`few:of all` {value}`k1::all:of all` {value}`many:words`"
    assert fill_in(text, "k1", values) == "Three 3 of 12 all 12 1,300"
    values["k1"] |= {"none": Recorded(0), "two": Recorded(2), "one": Recorded(1)}
    text = "It fits in {value}`none:of all`, in {value}`one:of one` cases. {value}`two:of two` fit."
    assert fill_in(text, "k1", values) == "It fits in none of 12, in the only case. Both fit."
    assert all_or_none("It holds in 5 of 5 families. 2 of 2 fit.") == "It holds in all 5 families. Both fit."
    assert fill_in("{value}`few:of gone`, {value}`gone:of few`", "k1", values) == f"{NO_VALUE}, {NO_VALUE}"
    for wrong in ("{value}`all:of few`", "{value}`share:of all`", "{value}`few:of share`", "{value}`share:words`"):
        with pytest.raises(ValueError, match=wrong[8:13]):
            fill_in(wrong, "k1", values)
