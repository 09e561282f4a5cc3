//! The evaluator: a tree walk with a budget of steps, of depth and of value size.

use std::collections::HashMap;

use super::syntax::{Binary, Compare, Expr, Function, Statement};
use super::{Error, Value, builtin};

const STEPS: usize = 50_000;
const DEEPEST: usize = 150;
const LARGEST_VALUE: usize = 10_000;

/// Calls a function of the program with a fresh budget.
pub(super) fn call(functions: &[Function], name: &str, args: Vec<Value>) -> Result<Value, Error> {
    Machine { functions, steps: STEPS, depth: 0 }.call(name, args)
}

struct Machine<'a> {
    functions: &'a [Function],
    steps: usize,
    depth: usize,
}

/// What a statement does to the block around it.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

type Scope = HashMap<String, Value>;

impl Machine<'_> {
    fn call(&mut self, name: &str, args: Vec<Value>) -> Result<Value, Error> {
        // As in Python, a later definition replaces an earlier one and a built-in.
        let Some(function) = self.functions.iter().rfind(|function| function.name == name) else {
            return builtin::call(name, args);
        };
        if function.params.len() != args.len() {
            return Err(Error::Runtime(format!(
                "{name} takes {} arguments, not {}",
                function.params.len(),
                args.len()
            )));
        }
        let mut scope: Scope = function.params.iter().cloned().zip(args).collect();
        match self.block(&function.body, &mut scope)? {
            Flow::Return(value) => Ok(value),
            _ => Ok(Value::None),
        }
    }

    fn block(&mut self, body: &[Statement], scope: &mut Scope) -> Result<Flow, Error> {
        for statement in body {
            let flow = self.deeper(|machine| machine.statement(statement, scope))?;
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, statement: &Statement, scope: &mut Scope) -> Result<Flow, Error> {
        match statement {
            Statement::Pass => {}
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Return(None) => return Ok(Flow::Return(Value::None)),
            Statement::Return(Some(expr)) => return self.eval(expr, scope).map(Flow::Return),
            Statement::Evaluate(expr) => {
                self.eval(expr, scope)?;
            }
            Statement::Assign(name, expr) => {
                let value = self.eval(expr, scope)?;
                scope.insert(name.clone(), value);
            }
            Statement::Augment(name, operator, expr) => {
                let old = lookup(name, scope)?;
                if matches!(old, Value::List(_)) {
                    return Err(Error::Runtime("a list cannot be changed in place here".into()));
                }
                let value = self.eval(expr, scope)?;
                let value = self.sized(binary(*operator, old, value)?)?;
                scope.insert(name.clone(), value);
            }
            Statement::If(branches) => {
                for (condition, body) in branches {
                    if self.eval(condition, scope)?.truth() {
                        return self.block(body, scope);
                    }
                }
            }
            Statement::For(name, source, body) => {
                for item in self.eval(source, scope)?.items()? {
                    scope.insert(name.clone(), item);
                    match self.block(body, scope)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        flow @ Flow::Return(_) => return Ok(flow),
                    }
                }
            }
            Statement::While(condition, body) => {
                while self.eval(condition, scope)?.truth() {
                    match self.block(body, scope)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        flow @ Flow::Return(_) => return Ok(flow),
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    fn eval(&mut self, expr: &Expr, scope: &mut Scope) -> Result<Value, Error> {
        let value = self.deeper(|machine| machine.compute(expr, scope))?;
        self.sized(value)
    }

    fn compute(&mut self, expr: &Expr, scope: &mut Scope) -> Result<Value, Error> {
        match expr {
            Expr::None => Ok(Value::None),
            Expr::Bool(value) => Ok(Value::Bool(*value)),
            Expr::Int(value) => Ok(Value::Int(*value)),
            Expr::Str(text) => Ok(Value::Str(text.clone())),
            Expr::Name(name) => lookup(name, scope),
            Expr::List(items) => self.evals(items, scope).map(Value::List),
            Expr::Negate(inner) => match self.eval(inner, scope)?.int()?.checked_neg() {
                Some(value) => Ok(Value::Int(value)),
                None => Err(Error::Limit("number size")),
            },
            Expr::Not(inner) => Ok(Value::Bool(!self.eval(inner, scope)?.truth())),
            Expr::And(left, right) => {
                let left = self.eval(left, scope)?;
                if left.truth() { self.eval(right, scope) } else { Ok(left) }
            }
            Expr::Or(left, right) => {
                let left = self.eval(left, scope)?;
                if left.truth() { Ok(left) } else { self.eval(right, scope) }
            }
            Expr::Binary(operator, left, right) => {
                let left = self.eval(left, scope)?;
                binary(*operator, left, self.eval(right, scope)?)
            }
            Expr::Compare(first, rest) => self.comparison(first, rest, scope),
            Expr::Ternary { condition, then, otherwise } => {
                let chosen = if self.eval(condition, scope)?.truth() { then } else { otherwise };
                self.eval(chosen, scope)
            }
            Expr::Call(name, args) => {
                let args = self.evals(args, scope)?;
                self.call(name, args)
            }
            Expr::Method(object, name, args) => {
                let object = self.eval(object, scope)?;
                builtin::method(object, name, self.evals(args, scope)?)
            }
            Expr::Index(object, index) => {
                let object = self.eval(object, scope)?;
                builtin::index(object, self.eval(index, scope)?.int()?)
            }
            Expr::Slice(object, parts) => {
                let object = self.eval(object, scope)?;
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts) {
                    if let Some(part) = part {
                        *bound = Some(self.eval(part, scope)?.int()?);
                    }
                }
                builtin::slice(object, bounds)
            }
            Expr::Comprehension { element, name, source, conditions } => {
                self.comprehension(element, name, source, conditions, scope)
            }
        }
    }

    fn evals(&mut self, exprs: &[Expr], scope: &mut Scope) -> Result<Vec<Value>, Error> {
        exprs.iter().map(|expr| self.eval(expr, scope)).collect()
    }

    fn comparison(
        &mut self,
        first: &Expr,
        rest: &[(Compare, Expr)],
        scope: &mut Scope,
    ) -> Result<Value, Error> {
        let mut left = self.eval(first, scope)?;
        for (operator, right) in rest {
            let right = self.eval(right, scope)?;
            if !compare(*operator, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn comprehension(
        &mut self,
        element: &Expr,
        name: &str,
        source: &Expr,
        conditions: &[Expr],
        scope: &mut Scope,
    ) -> Result<Value, Error> {
        let source = self.eval(source, scope)?.items()?;
        let hidden = scope.remove(name);
        let mut items = Vec::new();
        for item in source {
            scope.insert(name.into(), item);
            let mut keep = true;
            for condition in conditions {
                keep = keep && self.eval(condition, scope)?.truth();
            }
            if keep {
                items.push(self.eval(element, scope)?);
            }
        }
        scope.remove(name);
        scope.extend(hidden.map(|value| (name.to_string(), value)));
        Ok(Value::List(items))
    }

    /// One step, one level down.
    fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return Err(Error::Limit("depth"));
        }
        self.steps = self.steps.checked_sub(1).ok_or(Error::Limit("steps"))?;
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Pays for a value: a copy of a long list is many steps.
    fn sized(&mut self, value: Value) -> Result<Value, Error> {
        let size = value.size();
        if size > LARGEST_VALUE {
            return Err(Error::Limit("value size"));
        }
        self.steps = self.steps.checked_sub(size / 16).ok_or(Error::Limit("steps"))?;
        Ok(value)
    }
}

fn lookup(name: &str, scope: &Scope) -> Result<Value, Error> {
    scope.get(name).cloned().ok_or_else(|| Error::Runtime(format!("{name} is not defined")))
}

fn binary(operator: Binary, left: Value, right: Value) -> Result<Value, Error> {
    match (operator, left, right) {
        (Binary::Add, Value::Str(a), Value::Str(b)) => Ok(Value::Str(a + &b)),
        (Binary::Add, Value::List(mut a), Value::List(b)) => {
            a.extend(b);
            Ok(Value::List(a))
        }
        (Binary::Mul, Value::Str(text), count) | (Binary::Mul, count, Value::Str(text)) => {
            Ok(Value::Str(text.repeat(times(count, text.len())?)))
        }
        (Binary::Mul, Value::List(items), count) | (Binary::Mul, count, Value::List(items)) => {
            let count = times(count, items.iter().map(Value::size).sum())?;
            Ok(Value::List(items.iter().cycle().take(items.len() * count).cloned().collect()))
        }
        (operator, left, right) => arithmetic(operator, left.int()?, right.int()?).map(Value::Int),
    }
}

/// A repeat count that keeps the result within the bound.
fn times(count: Value, size: usize) -> Result<usize, Error> {
    let count = usize::try_from(count.int()?.max(0)).unwrap_or(usize::MAX);
    match size.checked_mul(count) {
        Some(0) => Ok(0),
        Some(total) if total <= LARGEST_VALUE => Ok(count),
        _ => Err(Error::Limit("value size")),
    }
}

/// Whole-number arithmetic with Python's floor division and remainder.
fn arithmetic(operator: Binary, a: i64, b: i64) -> Result<i64, Error> {
    if b == 0 && matches!(operator, Binary::FloorDiv | Binary::Mod) {
        return Err(Error::Runtime("division by zero".into()));
    }
    let result = match operator {
        Binary::Add => a.checked_add(b),
        Binary::Sub => a.checked_sub(b),
        Binary::Mul => a.checked_mul(b),
        Binary::FloorDiv => {
            a.checked_div(b).map(|quotient| quotient - i64::from(a % b != 0 && (a < 0) != (b < 0)))
        }
        Binary::Mod => {
            a.checked_rem(b).map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
        }
        Binary::Pow => {
            let exponent =
                u32::try_from(b).map_err(|_| Error::Runtime("an exponent is out of range".into()))?;
            a.checked_pow(exponent)
        }
    };
    result.ok_or(Error::Limit("number size"))
}

fn compare(operator: Compare, left: &Value, right: &Value) -> Result<bool, Error> {
    Ok(match operator {
        Compare::Equal => left == right,
        Compare::NotEqual => left != right,
        Compare::Less => left.order(right)?.is_lt(),
        Compare::LessEqual => left.order(right)?.is_le(),
        Compare::Greater => left.order(right)?.is_gt(),
        Compare::GreaterEqual => left.order(right)?.is_ge(),
        Compare::In => builtin::contains(right, left)?,
        Compare::NotIn => !builtin::contains(right, left)?,
    })
}
