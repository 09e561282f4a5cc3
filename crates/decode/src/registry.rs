//! Which strategies there are: a value, so that a program adds its own and has them everywhere a spelling is taken.
//! Help texts, parsing, documentation and the server's validation all read the entries.
//!
//! Invariant: no name or alias of a registry means two things.

use std::ops::Deref;
use std::sync::Arc;

use crate::assistant::Assistant;
use crate::dependency::{DependencySource, Predictor, Stability};
use crate::error::{Error, Result};
use crate::spelling::{self, Family, Listed, Spelled};
use crate::strategy::{self, Strategy};
use crate::trained::{Adjust, Policy, Prior};

pub use crate::spelling::{Kind, Param};

/// A strategy's entry.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Canonical name.
    pub name: &'static str,
    /// Other spellings that are understood.
    pub aliases: &'static [&'static str],
    /// One line of meaning.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What a step costs.
    pub cost: Cost,
    /// Its parameters.
    pub params: &'static [Param],
    /// Makes one with fresh state.
    pub build: fn(&Values<'_>) -> Result<Box<dyn Strategy>>,
}

/// What a step costs besides the forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Nothing beyond the logits of the masked rows.
    Logits,
    /// The dependency predictor: one d×d product over the masked rows.
    Predictor,
    /// Attention maps of the last layers.
    Attention,
    /// A second copy of the block in the same pass.
    Shadow,
    /// More forward passes.
    ExtraForwards,
    /// A second, causal model.
    Assistant,
    /// A small trained part beside the model.
    Part,
}

/// The strategies and dependency sources that names refer to.
///
/// ```
/// use demask_decode::registry::{Cost, Entry, Registry};
/// use demask_decode::strategy::{Selection, Step, Strategy};
///
/// struct Rightmost;
///
/// impl Strategy for Rightmost {
///     fn select(&mut self, step: &Step<'_>) -> demask_decode::Result<Selection> {
///         Ok(Selection { chosen: vec![step.masked.len() - 1], ..Selection::default() })
///     }
/// }
///
/// let registry = Registry::standard().with(Entry {
///     name: "rightmost",
///     aliases: &[],
///     summary: "unmask right to left",
///     source: "this example",
///     cost: Cost::Logits,
///     params: &[],
///     build: |_| Ok(Box::new(Rightmost)),
/// })?;
/// assert_eq!(registry.parse("rightmost")?.to_string(), "rightmost");
/// assert!(registry.parse("rightmos").unwrap_err().to_string().contains("did you mean rightmost"));
/// # Ok::<(), demask_decode::Error>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    entries: Arc<Vec<Entry>>,
    sources: Arc<Vec<(String, Arc<dyn DependencySource>)>>,
    makers: Arc<Vec<(&'static str, Arc<Maker>)>>,
}

/// Makes a strategy with fresh state; unlike [`Entry::build`] it may hold on to something of the program that added it.
pub type Maker = dyn Fn(&Values<'_>) -> Result<Box<dyn Strategy>> + Send + Sync;

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}

impl Registry {
    /// The strategies of this crate.
    pub fn standard() -> Self {
        Self { entries: Arc::new(strategy::ALL.to_vec()), sources: Arc::default(), makers: Arc::default() }
    }

    /// With one more strategy; a name that is taken is refused.
    pub fn with(mut self, entry: Entry) -> Result<Self> {
        for name in std::iter::once(&entry.name).chain(entry.aliases) {
            if self.find(name).is_ok() {
                return Err(Error::Taken { kind: Strategies::KIND, name: (*name).into() });
            }
        }
        Arc::make_mut(&mut self.entries).push(entry);
        Ok(self)
    }

    /// With one more strategy that a closure makes, in place of the entry's own `build`; a name that is taken is refused.
    pub fn with_maker(self, entry: Entry, maker: Arc<Maker>) -> Result<Self> {
        let mut with = self.with(entry)?;
        Arc::make_mut(&mut with.makers).push((entry.name, maker));
        Ok(with)
    }

    /// A strategy of this entry.
    fn make(&self, entry: &Entry, values: &Values<'_>) -> Result<Box<dyn Strategy>> {
        match self.makers.iter().find(|(name, _)| *name == entry.name) {
            Some((_, maker)) => maker(values),
            None => (entry.build)(values),
        }
    }

    /// With one more source of dependency, for `demask:dependency=NAME`; a name that is taken is refused.
    pub fn with_dependency(mut self, name: &str, source: Arc<dyn DependencySource>) -> Result<Self> {
        if ["predictor", "oracle"].contains(&name) || self.dependency(name).is_some() {
            return Err(Error::Taken { kind: "dependency source", name: name.into() });
        }
        Arc::make_mut(&mut self.sources).push((name.into(), source));
        Ok(self)
    }

    /// Every strategy, in the order of documentation.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Looks a strategy up by name or alias; an unknown one is answered with the nearest name.
    pub fn find(&self, name: &str) -> Result<&Entry> {
        spelling::find::<Strategies>(&self.entries, name)
    }

    /// The sources of dependency that were added, as `NAME=IDENTITY` where they have one: for records.
    pub fn dependencies(&self) -> Vec<String> {
        let said = |(name, source): &(String, Arc<dyn DependencySource>)| match source.identity() {
            Some(identity) => format!("{name}={identity}"),
            None => name.clone(),
        };
        self.sources.iter().map(said).collect()
    }

    /// A source of dependency that was added.
    pub fn dependency(&self, name: &str) -> Option<&Arc<dyn DependencySource>> {
        self.sources.iter().find(|(n, _)| n == name).map(|(_, source)| source)
    }

    /// Reads `NAME[:key=value,…]`.
    pub fn parse(&self, text: &str) -> Result<StrategySpec> {
        spelling::read(&self.entries, text)
    }
}

/// The family of strategies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strategies;

impl Family for Strategies {
    const KIND: &'static str = "strategy";
    const OPEN: bool = true;
    type Entry = Entry;

    fn standard() -> &'static [Entry] {
        strategy::ALL
    }
}

impl Listed for Entry {
    fn name(&self) -> &'static str {
        self.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.aliases
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// A strategy's name and the parameters that were given: the one spelling of a decoder, everywhere.
pub type StrategySpec = Spelled<Strategies>;

impl StrategySpec {
    /// Builds the strategy with fresh state, from the entries of the context's registry.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Strategy>> {
        let entry = context.registry.find(self.name())?;
        if self.is_checked() {
            return context.registry.make(entry, &Values { values: self.values(), context });
        }
        let checked = context.registry.parse(&self.to_string())?;
        context.registry.make(entry, &Values { values: checked.values(), context })
    }
}

/// What a strategy may use besides the step.
#[derive(Clone, Default)]
pub struct Context {
    /// The strategies there are.
    pub registry: Registry,
    /// The dependency predictor of the backbone, if there is one.
    pub predictor: Option<Arc<Predictor>>,
    /// The stability head of the backbone, if there is one.
    pub stability: Option<Arc<Stability>>,
    /// A predictor of mutual information instead of total variation, if there is one.
    pub information: Option<Arc<Predictor>>,
    /// A causal model with the same tokens, if there is one.
    pub assistant: Option<Arc<Assistant>>,
    /// A trained unmasking policy, if there is one.
    pub policy: Option<Arc<Policy>>,
    /// A trained layer that draws tokens together, if there is one.
    pub sampler: Option<Arc<Adjust>>,
    /// A trained prior of text, if there is one.
    pub prior: Option<Arc<Prior>>,
}

/// Parameter values of a spelling for the builder of a strategy, and what else it may use.
pub struct Values<'a> {
    values: spelling::Values<'a>,
    /// What the strategy may use of its surroundings.
    pub context: &'a Context,
}

impl<'a> Deref for Values<'a> {
    type Target = spelling::Values<'a>;

    fn deref(&self) -> &Self::Target {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Selection, Step};

    struct First;

    impl Strategy for First {
        fn select(&mut self, _: &Step<'_>) -> Result<Selection> {
            Ok(Selection { chosen: vec![0], ..Selection::default() })
        }
    }

    const OWN: Entry = Entry {
        name: "own",
        aliases: &["mine"],
        summary: "",
        source: "",
        cost: Cost::Logits,
        params: &[Param { key: "n", default: "1", kind: Kind::Count, help: "" }],
        build: |_| Ok(Box::new(First)),
    };

    #[test]
    fn every_entry_has_defaults_in_range_and_is_named_once() {
        let mut names = Vec::new();
        for entry in strategy::ALL {
            names.extend(std::iter::once(entry.name).chain(entry.aliases.iter().copied()));
            for param in entry.params.iter().filter(|p| !p.default.is_empty()) {
                param.check(entry.name, param.default).unwrap();
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn spelling_round_trips() {
        for text in ["entropy", "entropy:k=2", "klass:conf=0.9,kl=0.0003", "entropy:steps=20"] {
            assert_eq!(text.parse::<StrategySpec>().unwrap().to_string(), text);
        }
        let json = serde_json::to_string(&"top1:k=3".parse::<StrategySpec>().unwrap()).unwrap();
        assert_eq!(json, "\"top1:k=3\"");
        assert_eq!("maskgit_plus".parse::<StrategySpec>().unwrap().name(), "maskgit-plus");
    }

    #[test]
    fn mistakes_get_the_nearest_right_word() {
        for (text, hint) in [
            ("entropi", "did you mean entropy"),
            ("entropy:kk=2", "did you mean k"),
            ("klass:konf=0.9", "did you mean conf"),
            ("entropy:k=0", "at least 1"),
            ("klass:conf=1.5", "between 0 and 1"),
            ("entropy:k", "key=value"),
            ("entropy:k=1,k=2", "twice"),
            ("entropy:score=best", "raw, filtered"),
            ("entropy:k=2,steps=10", "not both"),
            ("demask:dependency=guess", "one of predictor, oracle"),
        ] {
            let parsed = text.parse::<StrategySpec>();
            let error =
                parsed.and_then(|s| s.build(&Context::default()).map(|_| ())).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn one_of_its_own_is_parsed_built_and_read_back() {
        let registry = Registry::standard().with(OWN).unwrap();
        let spec = registry.parse("mine:n=3").unwrap();
        assert_eq!(spec.to_string(), "own:n=3");
        assert!(registry.parse("own:n=0").is_err() && registry.parse("own:m=1").is_err());
        assert!("own".parse::<StrategySpec>().is_err(), "the standard ones do not know it");
        // A record of it is read without knowing it, and built by whoever does.
        let read: StrategySpec = serde_json::from_str("\"own:n=3\"").unwrap();
        assert_eq!(read, spec);
        let context = Context { registry, ..Context::default() };
        assert!(read.build(&context).is_ok() && spec.build(&context).is_ok());
        let unknown = read.build(&Context::default()).err().unwrap().to_string();
        assert!(unknown.contains("no strategy \"own\""), "{unknown}");
        let wrong: StrategySpec = serde_json::from_str("\"own:n=0\"").unwrap();
        assert!(wrong.build(&context).is_err(), "its words are judged when it is built");
    }

    #[test]
    fn a_closure_makes_strategies_with_what_it_holds() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let made = Arc::new(AtomicUsize::new(0));
        let count = made.clone();
        let maker: Arc<Maker> = Arc::new(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(First))
        });
        let refuses = Entry { build: |_| Err(Error::Canvas("not this way".into())), ..OWN };
        let registry = Registry::standard().with_maker(refuses, maker.clone()).unwrap();
        assert!(registry.clone().with_maker(OWN, maker).is_err(), "the name is taken");
        let context = Context { registry, ..Context::default() };
        for spelling in ["own", "mine:n=2"] {
            context.registry.parse(spelling).unwrap().build(&context).unwrap();
        }
        assert_eq!(made.load(Ordering::Relaxed), 2);
        assert!(
            "entropy".parse::<StrategySpec>().unwrap().build(&context).is_ok(),
            "others are built as ever"
        );
    }

    #[test]
    fn a_name_means_one_thing() {
        let taken = |entry| Registry::standard().with(entry).err().unwrap().to_string();
        assert!(taken(Entry { name: "entropy", ..OWN }).contains("already a strategy named \"entropy\""));
        assert!(taken(Entry { aliases: &["maskgit_plus"], ..OWN }).contains("maskgit_plus"));
        assert!(Registry::standard().with(OWN).unwrap().with(OWN).is_err());
    }
}
