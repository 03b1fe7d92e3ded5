"""Names and numbers in words: lists with commas, as users give them, the nearest of what there is, counts, shares."""

import difflib
from collections.abc import Callable, Iterable

from rbp.errors import ParameterError


def nearest(name: str, names: Iterable[str], key: Callable[[str], str] = str.lower) -> str:
    """Suggest, for an unknown ``name``: 'Did you mean "level"? There are: k, level.'

    ``key`` gives what is compared of a name.
    """
    candidates = list(names)
    by_key = {key(candidate): candidate for candidate in candidates}
    close = difflib.get_close_matches(key(name), by_key, n=1)
    guess = f'Did you mean "{by_key[close[0]]}"? ' if close else ""
    return guess + (f"There are: {', '.join(candidates)}." if candidates else "There are none.")


def split_names(text: str | None) -> list[str]:
    """Split a text at its commas into names, without the spaces around; none in a blank text."""
    return [name.strip() for name in text.split(",")] if text and text.strip() else []


def split_numbers(text: str | None, noun: str, option: str, least: int | None = None) -> list[int]:
    """Split a text at its commas into whole numbers; none for None.

    noun, option: what they are called, and by which option they are given. Raises ParameterError for anything else.
    """
    try:
        numbers = [] if text is None else [int(name) for name in text.split(",")]
        if least is not None and any(number < least for number in numbers):
            raise ValueError
    except ValueError:
        bound = "" if least is None else f" of at least {least}"
        remedy = f"Give whole numbers{bound}, with commas."
        raise ParameterError(f"{text!r} are not {noun}", option, remedy) from None
    return numbers


def and_more(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    return names[0] + (f" and {len(names) - 1} more" if names[1:] else "")


def times_power_of_ten(mantissa: str, exponent: int) -> str:
    """Write a number as by hand: 10⁻⁹, or 3.5·10⁻¹¹."""
    power = "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return power if mantissa == "1" else f"{mantissa}·{power}"


_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def number_word(n: int) -> str:
    """Write a number for a sentence: "four", and "1,300" beyond twelve."""
    return _WORDS[n] if 0 <= n < len(_WORDS) else f"{n:,}"
