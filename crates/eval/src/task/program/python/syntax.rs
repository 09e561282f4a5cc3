//! The syntax tree of the Python subset.

/// `def name(params): body`
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) params: Vec<String>,
    pub(super) body: Vec<Statement>,
}

#[derive(Clone, Debug)]
pub(super) enum Statement {
    Assign(String, Expr),
    Augment(String, Binary, Expr),
    Return(Option<Expr>),
    /// Branches in order; the condition of `else` is `True`.
    If(Vec<(Expr, Vec<Self>)>),
    For(String, Expr, Vec<Self>),
    While(Expr, Vec<Self>),
    Evaluate(Expr),
    Pass,
    Break,
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Pow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    NotIn,
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    None,
    Bool(bool),
    Int(i64),
    Str(String),
    Name(String),
    List(Vec<Self>),
    Negate(Box<Self>),
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Binary(Binary, Box<Self>, Box<Self>),
    /// `a < b <= c`
    Compare(Box<Self>, Vec<(Compare, Self)>),
    /// `then if condition else otherwise`
    Ternary {
        condition: Box<Self>,
        then: Box<Self>,
        otherwise: Box<Self>,
    },
    Call(String, Vec<Self>),
    Method(Box<Self>, String, Vec<Self>),
    Index(Box<Self>, Box<Self>),
    /// `value[low:high:step]`
    Slice(Box<Self>, [Option<Box<Self>>; 3]),
    /// `[element for name in source if …]`
    Comprehension {
        element: Box<Self>,
        name: String,
        source: Box<Self>,
        conditions: Vec<Self>,
    },
}
