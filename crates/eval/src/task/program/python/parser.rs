//! Tokens to syntax tree, by recursive descent with a bound on nesting.

use super::Error;
use super::lexer::{Kind, Token};
use super::syntax::{Binary, Compare, Expr, Function, Statement};

const DEEPEST: usize = 40;
const KEYWORDS: [&str; 19] = [
    "def", "return", "if", "elif", "else", "for", "while", "in", "not", "and", "or", "pass", "break",
    "continue", "lambda", "import", "class", "is", "from",
];

/// The functions of a program.
pub(super) fn parse(tokens: &[Token]) -> Result<Vec<Function>, Error> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let mut functions = Vec::new();
    while *parser.peek() != Kind::End {
        functions.push(parser.function()?);
    }
    if functions.is_empty() {
        return Err(parser.error("a function definition was expected"));
    }
    Ok(functions)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn function(&mut self) -> Result<Function, Error> {
        self.expect_word("def")?;
        let name = self.name()?;
        self.expect("(")?;
        let mut params = Vec::new();
        while !self.accept(")") {
            params.push(self.name()?);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(Function { name, params, body: self.block()? })
    }

    /// `:` and an indented block, or one simple statement on the same line.
    fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.expect(":")?;
        if *self.peek() != Kind::Newline {
            return Ok(vec![self.simple()?]);
        }
        self.next();
        if *self.next() != Kind::Indent {
            return Err(self.error("an indented block was expected"));
        }
        let mut body = Vec::new();
        while *self.peek() != Kind::Dedent {
            let statement = self.nested(Self::statement)?;
            body.push(statement);
        }
        self.next();
        Ok(body)
    }

    fn statement(&mut self) -> Result<Statement, Error> {
        if self.accept_word("if") {
            return self.branches();
        }
        if self.accept_word("while") {
            return Ok(Statement::While(self.expr()?, self.block()?));
        }
        if self.accept_word("for") {
            let name = self.name()?;
            self.expect_word("in")?;
            return Ok(Statement::For(name, self.expr()?, self.block()?));
        }
        self.simple()
    }

    fn branches(&mut self) -> Result<Statement, Error> {
        let mut branches = vec![(self.expr()?, self.block()?)];
        loop {
            if self.accept_word("elif") {
                branches.push((self.expr()?, self.block()?));
            } else if self.accept_word("else") {
                branches.push((Expr::Bool(true), self.block()?));
                return Ok(Statement::If(branches));
            } else {
                return Ok(Statement::If(branches));
            }
        }
    }

    fn simple(&mut self) -> Result<Statement, Error> {
        let statement = if self.accept_word("return") {
            Statement::Return(if *self.peek() == Kind::Newline { None } else { Some(self.expr()?) })
        } else if self.accept_word("pass") {
            Statement::Pass
        } else if self.accept_word("break") {
            Statement::Break
        } else if self.accept_word("continue") {
            Statement::Continue
        } else {
            self.assignment()?
        };
        if *self.next() != Kind::Newline {
            return Err(self.error("the end of the line was expected"));
        }
        Ok(statement)
    }

    fn assignment(&mut self) -> Result<Statement, Error> {
        let target = self.expr()?;
        let operator = match self.peek() {
            Kind::Symbol("=") => None,
            Kind::Symbol("+=") => Some(Binary::Add),
            Kind::Symbol("-=") => Some(Binary::Sub),
            Kind::Symbol("*=") => Some(Binary::Mul),
            Kind::Symbol("//=") => Some(Binary::FloorDiv),
            Kind::Symbol("%=") => Some(Binary::Mod),
            Kind::Symbol("**=") => Some(Binary::Pow),
            _ => return Ok(Statement::Evaluate(target)),
        };
        let Expr::Name(name) = target else { return Err(self.error("only a name can be assigned to")) };
        self.next();
        let value = self.expr()?;
        Ok(match operator {
            None => Statement::Assign(name, value),
            Some(operator) => Statement::Augment(name, operator, value),
        })
    }

    fn expr(&mut self) -> Result<Expr, Error> {
        self.nested(|parser| {
            let then = parser.or()?;
            if !parser.accept_word("if") {
                return Ok(then);
            }
            let condition = parser.or()?;
            parser.expect_word("else")?;
            let otherwise = parser.expr()?;
            Ok(Expr::Ternary { condition: condition.into(), then: then.into(), otherwise: otherwise.into() })
        })
    }

    fn or(&mut self) -> Result<Expr, Error> {
        let mut left = self.and()?;
        while self.accept_word("or") {
            left = Expr::Or(left.into(), self.and()?.into());
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr, Error> {
        let mut left = self.not()?;
        while self.accept_word("and") {
            left = Expr::And(left.into(), self.not()?.into());
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expr, Error> {
        if self.accept_word("not") {
            return Ok(Expr::Not(self.nested(Self::not)?.into()));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr, Error> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        while let Some(compare) = self.comparator() {
            rest.push((compare, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(first.into(), rest) })
    }

    fn comparator(&mut self) -> Option<Compare> {
        let compare = match self.peek() {
            Kind::Symbol("==") => Compare::Equal,
            Kind::Symbol("!=") => Compare::NotEqual,
            Kind::Symbol("<") => Compare::Less,
            Kind::Symbol("<=") => Compare::LessEqual,
            Kind::Symbol(">") => Compare::Greater,
            Kind::Symbol(">=") => Compare::GreaterEqual,
            Kind::Name(word) if word == "in" => Compare::In,
            Kind::Name(word) if word == "not" => {
                self.next();
                return self.accept_word("in").then_some(Compare::NotIn);
            }
            _ => return None,
        };
        self.next();
        Some(compare)
    }

    fn sum(&mut self) -> Result<Expr, Error> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Kind::Symbol("+") => Binary::Add,
                Kind::Symbol("-") => Binary::Sub,
                _ => return Ok(left),
            };
            self.next();
            left = Expr::Binary(operator, left.into(), self.product()?.into());
        }
    }

    fn product(&mut self) -> Result<Expr, Error> {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Kind::Symbol("*") => Binary::Mul,
                Kind::Symbol("//") => Binary::FloorDiv,
                Kind::Symbol("%") => Binary::Mod,
                _ => return Ok(left),
            };
            self.next();
            left = Expr::Binary(operator, left.into(), self.unary()?.into());
        }
    }

    fn unary(&mut self) -> Result<Expr, Error> {
        if self.accept("-") {
            return Ok(Expr::Negate(self.nested(Self::unary)?.into()));
        }
        let base = self.postfix()?;
        if self.accept("**") {
            // Right associative, and its exponent may carry a sign.
            return Ok(Expr::Binary(Binary::Pow, base.into(), self.nested(Self::unary)?.into()));
        }
        Ok(base)
    }

    fn postfix(&mut self) -> Result<Expr, Error> {
        let mut value = self.atom()?;
        loop {
            if self.accept("[") {
                value = self.subscript(value)?;
            } else if self.accept(".") {
                let method = self.name()?;
                self.expect("(")?;
                value = Expr::Method(value.into(), method, self.arguments()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn subscript(&mut self, value: Expr) -> Result<Expr, Error> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.accept("]") {
                break;
            } else if colons < 2 && self.accept(":") {
                colons += 1;
            } else if parts[colons].is_none() {
                parts[colons] = Some(Box::new(self.expr()?));
            } else {
                return Err(self.error("] was expected"));
            }
        }
        match (colons, parts) {
            (0, [Some(index), _, _]) => Ok(Expr::Index(value.into(), index)),
            (0, _) => Err(self.error("an index was expected")),
            (_, parts) => Ok(Expr::Slice(value.into(), parts)),
        }
    }

    fn atom(&mut self) -> Result<Expr, Error> {
        match self.next().clone() {
            Kind::Int(value) => Ok(Expr::Int(value)),
            Kind::Str(text) => Ok(Expr::Str(text)),
            Kind::Symbol("(") => {
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Kind::Symbol("[") => self.list(),
            Kind::Name(word) => match word.as_str() {
                "True" => Ok(Expr::Bool(true)),
                "False" => Ok(Expr::Bool(false)),
                "None" => Ok(Expr::None),
                word if KEYWORDS.contains(&word) => Err(self.error(&format!("unexpected {word}"))),
                _ if self.accept("(") => Ok(Expr::Call(word, self.arguments()?)),
                _ => Ok(Expr::Name(word)),
            },
            _ => Err(self.error("an expression was expected")),
        }
    }

    /// The rest of `[…]`: items, or one comprehension.
    fn list(&mut self) -> Result<Expr, Error> {
        if self.accept("]") {
            return Ok(Expr::List(Vec::new()));
        }
        let first = self.expr()?;
        if self.accept_word("for") {
            let comprehension = self.comprehension(first)?;
            self.expect("]")?;
            return Ok(comprehension);
        }
        let mut items = vec![first];
        while !self.accept("]") {
            self.expect(",")?;
            if *self.peek() != Kind::Symbol("]") {
                items.push(self.expr()?);
            }
        }
        Ok(Expr::List(items))
    }

    /// The rest of `(…)` of a call: expressions, or one bare comprehension.
    fn arguments(&mut self) -> Result<Vec<Expr>, Error> {
        let mut items = Vec::new();
        while !self.accept(")") {
            let item = self.expr()?;
            let item = if self.accept_word("for") { self.comprehension(item)? } else { item };
            items.push(item);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(items)
    }

    fn comprehension(&mut self, element: Expr) -> Result<Expr, Error> {
        let name = self.name()?;
        self.expect_word("in")?;
        let source = self.or()?;
        let mut conditions = Vec::new();
        while self.accept_word("if") {
            conditions.push(self.or()?);
        }
        Ok(Expr::Comprehension { element: element.into(), name, source: source.into(), conditions })
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return Err(Error::Limit("nesting"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    /// The current token; stays on `End`.
    fn next(&mut self) -> &Kind {
        let at = self.at;
        self.at = (at + 1).min(self.tokens.len() - 1);
        &self.tokens[at].kind
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Kind::Symbol(found) if *found == symbol);
        if found {
            self.next();
        }
        found
    }

    fn accept_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Kind::Name(found) if found == word);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.accept(symbol) { Ok(()) } else { Err(self.error(&format!("{symbol} was expected"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.accept_word(word) { Ok(()) } else { Err(self.error(&format!("{word} was expected"))) }
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.next().clone() {
            Kind::Name(word) if !KEYWORDS.contains(&word.as_str()) => Ok(word),
            _ => Err(self.error("a name was expected")),
        }
    }

    fn error(&self, what: &str) -> Error {
        Error::Syntax { line: self.tokens[self.at].line, what: what.into() }
    }
}
