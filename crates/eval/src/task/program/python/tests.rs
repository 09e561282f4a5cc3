//! What the interpreter computes, and that it survives what it must refuse.

use super::{Error, Module, Value};

fn run(source: &str, args: Vec<Value>) -> Result<Value, Error> {
    Module::parse(source)?.call("f", args)
}

/// Evaluates an expression over `x = 7`, `xs = [3, 1, 2]` and `s = "Hello"`.
fn eval(expr: &str) -> Result<Value, Error> {
    let xs = Value::List([3, 1, 2].map(Value::Int).to_vec());
    run(&format!("def f(x, xs, s):\n    return {expr}"), vec![Value::Int(7), xs, Value::Str("Hello".into())])
}

#[test]
fn expressions_have_the_values_python_gives_them() {
    for (expr, expected) in [
        ("x + 3 * 2", "13"),
        ("(x + 3) * 2", "20"),
        ("-x // 2", "-4"),
        ("-x % 3", "2"),
        ("x % -3", "-2"),
        ("-x ** 2", "-49"),
        ("2 ** 3 ** 2", "512"),
        ("x > 3 and x < 9", "True"),
        ("3 < x <= 6", "False"),
        ("not x == 7", "False"),
        ("1 if x > 7 else 2", "2"),
        ("x == 7.0 if False else True", "syntax"),
        ("True + True", "2"),
        ("True == 1", "True"),
        ("[v * 2 for v in xs if v > 1]", "[6, 4]"),
        ("[v for v in xs[0:2]]", "[3, 1]"),
        ("[[v for v in xs]]", "[[3, 1, 2]]"),
        ("sum(v for v in xs if v % 2 == 1)", "4"),
        ("max(xs) - min(xs)", "2"),
        ("max(x, 9)", "9"),
        ("sorted(xs)[::-1]", "[3, 2, 1]"),
        ("xs[-1]", "2"),
        ("xs[5:]", "[]"),
        ("xs[:-5]", "[]"),
        ("xs[-1:-3:-1]", "[2, 1]"),
        ("s[:2]", "\"He\""),
        ("s[-2:]", "\"lo\""),
        ("s[::-1]", "\"olleH\""),
        ("s.upper() + \"!\" * 3", "\"HELLO!!!\""),
        ("'ell' in s", "True"),
        ("'two wORDS'.capitalize()", "\"Two words\""),
        ("\"it's two-fold wORDS\".title()", "\"It'S Two-Fold Words\""),
        ("x not in xs", "True"),
        ("len(range(2, 9, 3))", "3"),
        ("\" \".join([str(v) for v in xs])", "\"3 1 2\""),
        ("xs + [4] == [3, 1, 2, 4]", "True"),
        ("[1, 2,]", "[1, 2]"),
    ] {
        let found = match eval(expr) {
            Ok(value) => value.to_string(),
            Err(Error::Syntax { .. }) => "syntax".into(),
            Err(other) => other.to_string(),
        };
        assert_eq!(found, expected, "{expr}");
    }
}

#[test]
fn statements_run_in_order_and_leave_their_loops() {
    let source = "
def helper(n):
    if n < 2:
        return n
    elif n == 2: return 1
    else:
        return helper(n - 1) + helper(n - 2)

def f(n):
    \"\"\"Sum of the first Fibonacci numbers.\"\"\"
    total = 0
    for i in range(100):
        if i == 3:
            continue
        if i > n:
            break  # enough
        total += helper(i)
    while total > 1000:
        total -= 1000
    return total
";
    assert_eq!(run(source, vec![Value::Int(7)]), Ok(Value::Int(31)));
}

#[test]
fn a_comprehension_does_not_leak_its_name() {
    assert_eq!(
        run("def f(v):\n    w = [v for v in [1, 2]]\n    return v", vec![Value::Int(9)]),
        Ok(Value::Int(9))
    );
    assert!(matches!(
        run("def f(x):\n    w = [v for v in [x]]\n    return v", vec![Value::Int(9)]),
        Err(Error::Runtime(_))
    ));
}

#[test]
fn what_is_outside_the_subset_is_an_error() {
    for expr in [
        "x / 2",
        "y",
        "x +",
        "x[0]",
        "xs[9]",
        "x // 0",
        "s + x",
        "xs < x",
        "max([])",
        "open(\"x\")",
        "xs.append(1)",
        "2 ** -1",
        "lambda v: v",
        "__import__(\"os\")",
        "9223372036854775807 + 1",
        "99999999999999999999",
        "x.real",
        "xs[::0]",
        "(x",
        "x)",
        "\"abc",
        "x if x",
        "range()",
        "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) // -1",
        "(-9223372036854775807 - 1) % -1",
        "é",
        "1 not 2",
    ] {
        assert!(eval(expr).is_err(), "{expr}");
    }
    for source in [
        "",
        "x = 1",
        "def f(x)",
        "def f(x):",
        "def f(x):\nreturn x",
        "def f(x):\n    return x\n  y",
        "def f(:\n    pass",
        "def f(x):\n\treturn x",
    ] {
        assert!(Module::parse(source).is_err(), "{source:?}");
    }
    assert!(run("def f(x):\n    return x", vec![]).is_err());
    assert!(run("def g(x):\n    return x", vec![Value::Int(1)]).is_err());
}

#[test]
fn hostile_programs_end_soon_with_an_error() {
    let deep = format!("def f(x):\n    return {}x{}", "(".repeat(3000), ")".repeat(3000));
    let signs = format!("def f(x):\n    return {}x", "-".repeat(900));
    let nots = format!("def f(x):\n    return {}x", "not ".repeat(900));
    let chain = format!("def f(x):\n    return x{}", " + x".repeat(490));
    let brackets = format!("def f(x):\n    return {}", "[".repeat(900));
    let blocks: String = (1..60).map(|level| format!("{}if x:\n", " ".repeat(level))).collect();
    for source in [
        deep,
        signs,
        nots,
        chain,
        brackets,
        format!("def f(x):\n{blocks}"),
        "x".repeat(100_000),
        "def f(x):\n    while True:\n        pass".into(),
        "def f(x):\n    for i in range(1000000000):\n        x = i\n    return x".into(),
        "def f(x):\n    return f(x)".into(),
        "def f(x):\n    return 9 ** 9 ** 9".into(),
        "def f(x):\n    return \"a\" * 1000000000000".into(),
        "def f(x):\n    s = \"ab\"\n    while True:\n        s = s + s".into(),
        "def f(x):\n    s = [1]\n    while True:\n        s = [s, s]".into(),
        "def f(x):\n    return [[[a for a in range(9999)] for b in range(9999)] for c in range(9999)]".into(),
        "def f(x):\n    s = [0] * 9999\n    return sum([len(s) for i in range(9999)])".into(),
    ] {
        assert!(run(&source, vec![Value::Int(1)]).is_err(), "{}", &source[..source.len().min(60)]);
    }
}

#[test]
fn random_text_never_panics() {
    let pieces = [
        "def f(x):",
        "\n",
        "    ",
        "return ",
        "x",
        "(",
        ")",
        "[",
        "]",
        ":",
        "+",
        "1",
        "if ",
        "else ",
        "for ",
        "in ",
        "\"",
        "é",
        "\\",
        ".",
        ",",
    ];
    let mut rng = crate::task::Rng::new(17);
    for _ in 0..20_000 {
        let mut source = String::from(if rng.coin() { "def f(x):\n    return " } else { "" });
        for _ in 0..rng.below(20) {
            source += *rng.pick(&pieces);
        }
        let _ = run(&source, vec![Value::Int(3)]);
    }
}
