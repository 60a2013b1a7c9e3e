"""Documents of made-up lines of prose."""

WORDS = "alder birch cedar elm fir hazel larch maple oak pine rowan spruce willow yew".split()


def documents(number, shift=0):
    """Each with six lines that no other one has."""
    texts = []
    for at in range(number):
        picks = [WORDS[(at * 7 + shift + step * (at + 2)) % len(WORDS)] for step in range(40)]
        texts.append(
            "\n".join(
                f"line {'abcdef'[row]}{'ghijklmnop'[at % 10]} {' '.join(picks[row * 6 :][:7])}"
                for row in range(6)
            )
        )
    return texts
