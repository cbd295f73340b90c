"""The changes: one operator, one constant, one condition or one statement at a time."""

from dataclasses import dataclass

import lexer

SWAPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "&&": "||", "||": "&&", "+": "-", "-": "+", "+=": "-=", "-=": "+=",
}  # fmt: skip
STEPS = {"++": "--", "--": "++"}
WORDS = {"true": "false", "false": "true"}
NUMBERS = {"0": "1", "1": "0", "0U": "1U", "1U": "0U"}
EXTREMES = {"min": "max", "max": "min"}


@dataclass
class Mutant:
    path: str
    start: int
    end: int
    replacement: str
    change: str
    number: int = 0  # line
    line: str = ""
    function: str = ""
    nth: int = 1  # among equal changes of equal text in the same function

    @property
    def name(self):
        """A name that does not change when lines move; equivalent.txt uses it, too."""
        nth = f" #{self.nth}" if self.nth > 1 else ""
        return f"{self.path} | {self.function} | {self.line} | {self.change}{nth}"

    def apply(self, text):
        return text[: self.start] + self.replacement + text[self.end :]

    def __str__(self):
        return f"{self.path}:{self.number}: {self.change}: {self.line}"


def mutants_of(path, text):
    source = lexer.Source(text)
    found = [*_operators(source), *_conditions(source), *_statements(source), *_returns(source)]
    found.sort()
    made, seen = [], {}
    for start, end, replacement, change in found:
        number, line = source.line_at(start)
        mutant = Mutant(path, start, end, replacement, change, number, line)
        mutant.function = source.function_at(start)
        mutant.nth = seen[mutant.name] = seen.get(mutant.name, 0) + 1
        made.append(mutant)
    return made


def _operators(source):
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.wording or token.parent < 0:
            continue
        new = None
        if token.text in SWAPPED and source.is_spaced(index):
            is_sum = token.text[0] in "+-"
            if not (is_sum and _builds_text(source, index)):
                new = SWAPPED[token.text]
        elif token.text in STEPS:
            new = STEPS[token.text]
        elif token.text in WORDS:
            new = WORDS[token.text]
        elif token.kind == "number" and token.text in NUMBERS and not _in_type(source, index):
            new = NUMBERS[token.text]
        elif token.text in EXTREMES and source.match(index - 2, "std", "::"):
            new = EXTREMES[token.text]
        if new is not None:
            yield token.start, token.end, new, f"{token.text} -> {new}"
        elif token.text == "!":
            yield token.start, token.end, "", "! dropped"


def _builds_text(source, index):
    first, last = source.statement_of(index)
    makers = ("to_string", "to_text", "label")
    pieces = source.tokens[first : last + 1]
    return any(one.kind == "text" or one.text in makers for one in pieces)


def _in_type(source, index):
    """Whether it is a template argument: `array<int, 0>`."""
    return source.tokens[index - 1].text == "<" and not source.is_spaced(index - 1)


def _conditions(source):
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if token.text not in ("if", "while") or token.wording or tokens[index + 1].text != "(":
            continue
        first, last = index + 2, tokens[index + 1].partner - 1
        own = [i for i in range(first, last + 1) if tokens[i].parent == index + 1]
        for i in own:
            if tokens[i].text == ";":
                first = i + 1
        if any(tokens[i].text == "=" for i in own if i >= first):
            continue  # the condition declares what it tests
        if first == last or tokens[first].text != "!":
            start, end = tokens[first].start, tokens[last].end
            yield start, end, f"!({source.text[start:end]})", f"{token.text} negated"


def _statements(source):
    for statement in source.statements:
        start = source.tokens[statement.first]
        if start.wording:
            continue
        end = source.tokens[statement.last].end
        words = source.span(statement.first, statement.last)
        if start.text in ("return", "break", "continue"):
            if statement.head >= 0:
                begin = source.tokens[statement.head].start
                yield begin, end, ";", f"if with its {start.text} deleted"
            elif words == "return;" or start.text == "continue":
                yield start.start, end, ";", f"{start.text} deleted"
        elif source.is_expression(statement):
            yield start.start, end, ";", "statement deleted"


def _returns(source):
    for statement in source.statements:
        first, last = statement.first, statement.last
        if source.tokens[first].text != "return" or source.tokens[first].wording:
            continue
        if last - first < 2 or source.tokens[first + 1].text in ("true", "false", "!"):
            continue
        start, end = source.tokens[first + 1].start, source.tokens[last].start
        if source.head_at(start).startswith("bool "):
            yield start, end, f"!({source.text[start:end]})", "return negated"
