"""Reads C++ as far as the mutators need it: tokens with their places, which bracket encloses which,
where a statement begins and ends, and what is only wording. It knows the shape that clang-format
gives our sources (binary operators between spaces, a function's head in column 0); it is not a
parser."""

import re
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^\#[^\n]*)
      | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<number>\b\d[\w.']*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark><<=|>>=|->|::|\+\+|--|<=|>=|==|!=|&&|\|\||<<|>>|[-+*/%&|^]=|[^\s\w])""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
OPENING = {"(": ")", "[": "]", "{": "}"}
# A function's head, or the end of what comes before it.
HEAD = re.compile(r"^(?:[A-Za-z_][^\n;=]*\(|\})", re.MULTILINE)
NO_HEAD = re.compile(r"^(namespace|struct|class|enum|using|template|inline constexpr|constexpr)\b")

# Texts for people do not count as behaviour: notes, and the values of which sentences consist.
WORDING = re.compile(
    r"^((out\.)?note(_refusal)?\(|DDPRUN_ASSERT\(|"
    r"(text|names|why\.text|value\.text|record\.text|current\.last_end|"
    r"current\.common\.leader_node)\s*(=|\+=|\.))"
)
# These change only speed or memory.
IDLE = re.compile(r"\.reserve\(|^\[\[fallthrough\]\]")
# "type name = ...", "type& name{...}", "type name;".
DECLARATION = re.compile(
    r"[\w:]+(<[^;=()]*>)?((\s+const)?\s*[&*]\s*(const\s+)?|\s+)[A-Za-z_]\w*\s*[=;{(]"
)
NOT_A_STATEMENT = {
    "return", "if", "for", "while", "do", "switch", "case", "default", "else", "const", "constexpr",
    "static", "auto", "using", "struct", "class", "enum", "namespace", "template", "inline",
    "explicit", "try", "throw", "friend", "public", "private", "typedef", "bool", "int", "unsigned",
    "void", "char",
}  # fmt: skip


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    parent: int = -1  # index of the bracket that encloses it
    partner: int = -1  # of a bracket: the other one
    wording: bool = False


@dataclass
class Statement:
    first: int  # token indices
    last: int  # its semicolon
    head: int = -1  # of an `if` of which this is the only body: the index of that word


@dataclass
class Source:
    text: str
    tokens: list[Token] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    def __post_init__(self):
        for found in TOKEN.finditer(self.text):
            if found.lastgroup not in ("comment", "directive"):
                made = Token(found.lastgroup, found.group(), found.start(), found.end())
                self.tokens.append(made)
        self._pair_brackets()
        self._find_statements()
        self._mark_wording()
        self.heads = [
            (found.start(), self.text[found.start() : self.text.find("\n", found.start())])
            for found in HEAD.finditer(self.text)
            if not NO_HEAD.match(found.group())
        ]
        self.heads = [one for one in self.heads if not one[1].endswith(");")]
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", self.text)]

    def head_at(self, offset):
        """The first line of the function that this is in, or an empty one."""
        head = ""
        for start, line in self.heads:
            if start > offset:
                break
            head = line
        return head

    def function_at(self, offset):
        found = re.search(r"([\w:~]+)\(", self.head_at(offset))
        return found.group(1) if found else ""

    def line_at(self, offset):
        low = self.text.count("\n", 0, offset) + 1
        return low, self.text[self.line_starts[low - 1] :].split("\n", 1)[0].strip()

    def is_spaced(self, index):
        """A binary operator, as clang-format writes it."""
        token = self.tokens[index]
        before, after = self.text[token.start - 1], self.text[token.end : token.end + 1]
        return before.isspace() and after.isspace()

    def span(self, first, last):
        return self.text[self.tokens[first].start : self.tokens[last].end]

    def match(self, index, *texts):
        given = [token.text for token in self.tokens[index : index + len(texts)]]
        return given == list(texts)

    def statement_of(self, index):
        """(first, last) of the simple statement around a token, by its brackets' semicolons."""
        parent = self.tokens[index].parent
        while parent >= 0 and self.tokens[parent].text != "{":
            parent = self.tokens[parent].parent
        first = index
        while first - 1 > parent and self.tokens[first - 1].text not in (";", "{", "}"):
            first -= 1
        last = index
        while last + 1 < len(self.tokens) and self.tokens[last].text not in (";", "{", "}"):
            last += 1
        return first, last

    def _pair_brackets(self):
        open_ones = []
        for index, token in enumerate(self.tokens):
            if token.text in OPENING.values() and open_ones:
                token.partner = open_ones.pop()
                self.tokens[token.partner].partner = index
            token.parent = open_ones[-1] if open_ones else -1
            if token.text in OPENING:
                open_ones.append(index)

    def _find_statements(self):
        for index, token in enumerate(self.tokens):
            if token.parent < 0 or self.tokens[token.parent].text != "{":
                continue
            head = self._head_before(index)
            if head is None:
                continue
            last = self._end_of(index)
            if last is not None:
                self.statements.append(Statement(index, last, head))

    def _head_before(self, index):
        """None if no statement begins at this token; otherwise the `if` whose body it is, or -1."""
        previous = self.tokens[index - 1]
        if previous.text in (";", "{", "}"):
            return -1
        if previous.text == "else":
            return -1
        if previous.text == ":" and self._is_label(index - 1):
            return -1
        if previous.text == ")":
            opening = previous.partner
            word = self.tokens[opening - 1].text
            if word == "if":
                return opening - 1
            if word in ("while", "for"):
                return -1
        return None

    def _is_label(self, colon):
        first = colon
        while self.tokens[first - 1].text not in (";", "{", "}", ":"):
            first -= 1
        return self.tokens[first].text in ("case", "default")

    def _end_of(self, first):
        """The semicolon of a simple statement (not of a declaration or a control statement)."""
        start = self.tokens[first]
        if start.kind != "word" and start.text not in ("++", "--", "*"):
            return None
        index = first
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.text == ";":
                return index
            if token.text in OPENING:
                if token.text == "{" and self.tokens[index - 1].text in (")", "else", "do"):
                    return None
                index = token.partner
            elif token.text in OPENING.values():
                return None
            index += 1
        return None

    def is_expression(self, statement):
        """A call or an assignment, not a declaration."""
        if self.tokens[statement.first].text in NOT_A_STATEMENT:
            return False
        text = self.span(statement.first, statement.last)
        return not DECLARATION.match(text)

    def _mark_wording(self):
        for statement in self.statements:
            text = self.span(statement.first, statement.last)
            if WORDING.match(text) or IDLE.search(text):
                self._mark(statement.first, statement.last)
        # An `if` around nothing but wording decides only about wording.
        for index, token in enumerate(self.tokens):
            if token.text != "if" or self.tokens[index + 1].text != "(":
                continue
            closing = self.tokens[index + 1].partner
            body, end = closing + 1, closing + 1
            if self.tokens[body].text == "{":
                end = self.tokens[body].partner
                inside = self.tokens[body + 1 : end]
            else:
                while self.tokens[end].text != ";":
                    end += 1
                inside = self.tokens[body : end + 1]
            has_else = self.match(end + 1, "else")
            if inside and not has_else and all(one.wording for one in inside):
                self._mark(index, end)

    def _mark(self, first, last):
        for token in self.tokens[first : last + 1]:
            token.wording = True
