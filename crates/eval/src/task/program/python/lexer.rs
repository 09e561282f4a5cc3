//! Source text to tokens, with indentation as tokens of its own.

use super::Error;

const LARGEST_SOURCE: usize = 8192;
const LARGEST_TOKENS: usize = 1000;

/// Longest first, so that `**` is not read as two `*`.
const SYMBOLS: [&str; 30] = [
    "**=", "//=", "**", "//", "+=", "-=", "*=", "%=", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<",
    ">", "=", "(", ")", "[", "]", ",", ":", ".", "{", "}", ";",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name(String),
    Int(i64),
    Str(String),
    Symbol(&'static str),
    Newline,
    Indent,
    Dedent,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) line: usize,
}

/// The tokens of a source, closed by `End`.
pub(super) fn lex(source: &str) -> Result<Vec<Token>, Error> {
    if source.len() > LARGEST_SOURCE {
        return Err(Error::Limit("source size"));
    }
    let mut lexer = Lexer { rest: source, line: 1, brackets: 0, indents: vec![0], tokens: Vec::new() };
    lexer.indentation()?;
    while !lexer.rest.is_empty() {
        lexer.token()?;
        if lexer.tokens.len() > LARGEST_TOKENS {
            return Err(Error::Limit("source tokens"));
        }
    }
    lexer.finish()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    brackets: usize,
    indents: Vec<usize>,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn token(&mut self) -> Result<(), Error> {
        let Some(first) = self.rest.chars().next() else { return Ok(()) };
        match first {
            '\n' => self.newline(),
            ' ' | '\t' | '\r' => {
                self.skip(1);
                Ok(())
            }
            '#' => {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
                Ok(())
            }
            '"' | '\'' => self.string(first),
            _ if first.is_ascii_digit() => self.number(),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let length = self.run(|c| c.is_ascii_alphanumeric() || c == '_');
                let name = self.rest[..length].to_string();
                self.skip(length);
                self.push(Kind::Name(name));
                Ok(())
            }
            _ => self.symbol(first),
        }
    }

    fn newline(&mut self) -> Result<(), Error> {
        self.skip(1);
        self.line += 1;
        if self.brackets > 0 {
            return Ok(());
        }
        if !matches!(
            self.tokens.last().map(|token| &token.kind),
            None | Some(Kind::Newline | Kind::Indent | Kind::Dedent)
        ) {
            self.push(Kind::Newline);
        }
        self.indentation()
    }

    /// Reads the indentation of a line, unless the line is blank or a comment.
    fn indentation(&mut self) -> Result<(), Error> {
        let width = self.run(|c| c == ' ' || c == '\t');
        let after = &self.rest[width..];
        if after.is_empty() || after.starts_with(['\n', '\r', '#']) {
            return Ok(());
        }
        if self.rest[..width].contains('\t') {
            return Err(self.error("indent with spaces, not tabs"));
        }
        if width > self.indents.last().copied().unwrap_or(0) {
            self.indents.push(width);
            self.push(Kind::Indent);
        }
        while width < self.indents.last().copied().unwrap_or(0) {
            self.indents.pop();
            self.push(Kind::Dedent);
        }
        if self.indents.last() != Some(&width) {
            return Err(self.error("indentation matches no outer level"));
        }
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), Error> {
        let triple: String = [quote; 3].iter().collect();
        let mark = if self.rest.starts_with(&triple) { triple } else { quote.to_string() };
        self.skip(mark.len());
        let mut text = String::new();
        let line = self.line;
        loop {
            if self.rest.starts_with(&mark) {
                self.skip(mark.len());
                self.tokens.push(Token { kind: Kind::Str(text), line });
                return Ok(());
            }
            let mut chars = self.rest.chars();
            let Some(mut c) = chars.next() else { return Err(self.error("a string is not closed")) };
            let mut length = c.len_utf8();
            if c == '\n' && mark.len() == 1 {
                return Err(self.error("a string is not closed"));
            }
            self.line += usize::from(c == '\n');
            if c == '\\' {
                let escaped = chars.next().unwrap_or('\\');
                c = match escaped {
                    'n' => '\n',
                    't' => '\t',
                    '\\' | '"' | '\'' => escaped,
                    _ => return Err(self.error("an unknown escape in a string")),
                };
                length += escaped.len_utf8();
            }
            text.push(c);
            self.skip(length.min(self.rest.len()));
        }
    }

    fn number(&mut self) -> Result<(), Error> {
        let length = self.run(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let value = self.rest[..length]
            .parse()
            .map_err(|_| self.error("a number is not a whole number of 64 bits"))?;
        self.skip(length);
        self.push(Kind::Int(value));
        Ok(())
    }

    fn symbol(&mut self, first: char) -> Result<(), Error> {
        let Some(symbol) = SYMBOLS.iter().find(|symbol| self.rest.starts_with(**symbol)) else {
            return Err(self.error(&format!("unexpected character {first:?}")));
        };
        match *symbol {
            "(" | "[" => self.brackets += 1,
            ")" | "]" => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.skip(symbol.len());
        self.push(Kind::Symbol(symbol));
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Token>, Error> {
        if !matches!(self.tokens.last().map(|token| &token.kind), Some(Kind::Newline)) {
            self.push(Kind::Newline);
        }
        for _ in 1..self.indents.len() {
            self.push(Kind::Dedent);
        }
        self.push(Kind::End);
        Ok(self.tokens)
    }

    fn run(&self, accept: impl Fn(char) -> bool) -> usize {
        self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn push(&mut self, kind: Kind) {
        self.tokens.push(Token { kind, line: self.line });
    }

    fn error(&self, what: &str) -> Error {
        Error::Syntax { line: self.line, what: what.into() }
    }
}
