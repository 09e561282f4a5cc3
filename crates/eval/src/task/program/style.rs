//! The free choices of an answer: names, and whether results get a name on their way.

use super::code::Code;
use super::recipe::{Ask, Recipe};
use crate::task::Rng;

/// From the code of an input to the code of an output.
type Step<'a> = Box<dyn Fn(&Code) -> Code + 'a>;

/// How one answer is written. What the prompt names is kept.
pub(super) struct Style {
    pub(super) function: String,
    pub(super) params: Vec<String>,
    /// The name of an intermediate result; with none, the answer is one expression.
    local: Option<String>,
    /// The name of a list's element.
    element: &'static str,
}

impl Style {
    pub(super) fn draw(rng: &mut Rng, function: String, params: Vec<String>) -> Self {
        let own = params[0].clone();
        let local = rng.pick(&[None, None, None, Some("r".to_string()), Some(own)]).clone();
        let element = *rng.pick(&["v", "i"]);
        Self { function, params, local, element }
    }

    /// The function.
    pub(super) fn answer(&self, recipe: &Recipe) -> String {
        let steps = self.steps(recipe);
        let mut value = Code::atom(self.params[0].as_str());
        let mut body = String::new();
        for (at, step) in steps.iter().enumerate() {
            value = step(&value);
            let more = at + 1 < steps.len();
            if let (Some(local), true) = (&self.local, more && value.text != self.params[0]) {
                body += &format!("    {local} = {}\n", value.text);
                value = Code::atom(local.as_str());
            }
        }
        format!("def {}({}):\n{body}    return {}", self.function, self.params.join(", "), value.text)
    }

    /// The operations of a recipe, each taking the code of its input to the code of its output.
    fn steps<'a>(&'a self, recipe: &'a Recipe) -> Vec<Step<'a>> {
        match recipe {
            Recipe::Number(ops) => ops.iter().map(|op| boxed(move |value| op.code(value))).collect(),
            Recipe::Pair(join, _, op) => {
                let joined = boxed(move |_| join.code(&self.params));
                let then = op.as_ref().map(|op| boxed(move |value| op.code(value)));
                std::iter::once(joined).chain(then).collect()
            }
            Recipe::List(pipeline) => {
                let selected = boxed(move |list| pipeline.comprehension(self.element, &list.text));
                let folded = pipeline.fold.map(|fold| boxed(move |list| fold.code(list)));
                let then = pipeline.then.map(|fold| boxed(move |list| fold.code(list)));
                std::iter::once(selected).chain(folded).chain(then).collect()
            }
            Recipe::Text(edits) => {
                edits.iter().map(|edit| boxed(move |value| edit.code(value, self.element))).collect()
            }
            Recipe::Asks(ask, test) => vec![boxed(move |list| {
                let name = if *ask == Ask::Any { "any" } else { "all" };
                let passes = test.code(&Code::atom(self.element)).text;
                Code::atom(format!("{name}([{passes} for {} in {}])", self.element, list.text))
            })],
            Recipe::Words(step) => vec![boxed(move |list| step.code(&list.text, self.element))],
            Recipe::Two(two) => vec![boxed(move |_| two.code(&self.params[0], &self.params[1]))],
            Recipe::Series(series) => {
                vec![boxed(move |n| Code::atom(series.code(&self.function, &n.text, self.element)))]
            }
        }
    }
}

fn boxed<'a>(step: impl Fn(&Code) -> Code + 'a) -> Step<'a> {
    Box::new(step)
}
