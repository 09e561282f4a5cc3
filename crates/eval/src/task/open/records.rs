//! JSON records whose fields follow from one another: ids count up, an e-mail address is made of the name, a total is
//! the price times the quantity.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::demand::Family;
use super::{in_order, obvious, told};
use crate::task::lexicon;
use crate::task::phrase::{expand, fill};
use crate::task::{Rng, Wording};

/// A few records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    count: usize,
    /// In this order.
    fields: Vec<String>,
    /// The first id, where it is given.
    first: Option<i64>,
    /// How much an id is more than the one before.
    step: i64,
    /// What follows the `@`, where it is given.
    domain: Option<String>,
}

const FIELDS: [&[&str]; 13] = [
    &["id", "name"],
    &["name", "age"],
    &["name", "email"],
    &["id", "name", "email"],
    &["id", "name", "email"],
    &["name", "age", "email"],
    &["id", "name", "age"],
    &["price", "quantity", "total"],
    &["item", "price", "quantity", "total"],
    &["id", "price", "quantity", "total"],
    &["id", "item", "price"],
    &["item", "price"],
    &["id", "name", "email", "price", "quantity", "total"],
];

/// What a field of words may be called besides `item`, and one of numbers besides `age`.
const WORDS: [&str; 10] =
    ["product", "title", "article", "book", "toy", "gift", "food", "tool", "label", "thing"];
const NUMBERS: [&str; 10] =
    ["score", "points", "stock", "pages", "level", "count", "amount", "weight", "size", "floor"];

const DOMAINS: [&str; 14] = [
    "mail.com",
    "mail.org",
    "shop.com",
    "test.org",
    "home.net",
    "work.com",
    "post.net",
    "site.org",
    "club.com",
    "farm.net",
    "team.org",
    "city.com",
    "example.com",
    "example.org",
];

impl Records {
    fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|known| known == field)
    }

    fn notes(&self, rng: &mut Rng) -> String {
        let mut notes = Vec::new();
        if self.has("id") {
            notes.push(match self.first {
                Some(first) if self.step > 1 => {
                    let pattern = expand(rng, "[The ids count up from {f} in steps of {k}.|Ids start at {f} and go up by {k}.|The ids go up by {k} from {f}.]");
                    fill(&pattern, &[("f", &first.to_string()), ("k", &self.step.to_string())])
                }
                Some(first) => {
                    let pattern = expand(rng, "[The ids count up from {}.|The ids should count up from {}.|Ids start at {}.|Ids count up from {}.|The first id is {} and they count up.|Number them from {}.]");
                    pattern.replace("{}", &first.to_string())
                }
                None => expand(rng, "[The ids count up.|The ids go up by one.|Ids count up by 1.|The ids are consecutive.|]"),
            });
        }
        if self.has("email") {
            let pattern = match self.domain {
                Some(_) => {
                    "[The email is the name in lower case at {d}.|Emails end in @{d}.|Use @{d} for the email.|The email follows from the name, at {d}.|Each email is name@{d}.|The email is like firstname@{d}.|The email should be the name at {d}.]"
                }
                None => {
                    "[The email follows from the name.|The email should be made from the name.|The email is made from the name.|The email matches the name.|The email is the name in small letters at some domain.|]"
                }
            };
            let domain = self.domain.as_deref().unwrap_or_default();
            notes.push(fill(&expand(rng, pattern), &[("d", domain)]));
        }
        if self.has("total") {
            notes.push(expand(rng, "[The total is price times quantity.|total = price * quantity.|Total is price times quantity.|The total must be the price times the quantity.|]"));
        }
        notes.into_iter().filter(|note| !note.is_empty()).map(|note| format!(" {note}")).collect()
    }

    /// Different names and things.
    fn drawn(&self, rng: &mut Rng) -> [Vec<String>; 2] {
        let mut names: Vec<String> = Vec::new();
        while names.len() < self.count {
            let name = &lexicon::familiar_name(rng).text;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let mut items: Vec<String> = Vec::new();
        while items.len() < self.count {
            let item = &lexicon::familiar_noun(rng, &[lexicon::NounKind::Food, lexicon::NounKind::Thing]).one;
            if !items.contains(item) {
                items.push(item.clone());
            }
        }
        if in_order(rng) {
            names.sort_unstable();
            items.sort_unstable();
        }
        [names, items]
    }

    /// Whether a record of JSON is what it should be, given the one before.
    fn fits(&self, record: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Option<bool> {
        let number = |field: &str| record.get(field).and_then(Value::as_i64);
        let text = |field: &str| record.get(field).and_then(Value::as_str);
        let mut right =
            record.len() == self.fields.len() && self.fields.iter().all(|f| record.contains_key(f));
        if self.has("id") {
            let id = number("id")?;
            right &= match before {
                Some(before) => before.get("id").and_then(Value::as_i64) == Some(id - self.step),
                None => self.first.is_none_or(|first| id == first),
            };
        }
        if self.has("name") {
            let name = text("name")?;
            right &= name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphabetic);
        }
        for field in &self.fields {
            match field.as_str() {
                "age" => right &= (0..=120).contains(&number(field)?),
                "item" => right &= !text(field)?.is_empty(),
                other if WORDS.contains(&other) => right &= !text(field)?.is_empty(),
                other if NUMBERS.contains(&other) => right &= number(field)? >= 0,
                _ => {}
            }
        }
        if self.has("price") {
            right &= number("price")? >= 0;
        }
        if self.has("email") {
            let (local, domain) = text("email")?.split_once('@')?;
            right &= local == text("name")?.to_lowercase() && domain.contains('.');
            right &= self.domain.as_deref().is_none_or(|wanted| wanted == domain);
        }
        if self.has("total") {
            right &= number("price")?.checked_mul(number("quantity")?) == Some(number("total")?);
        }
        Some(right)
    }
}

impl Family for Records {
    fn draw(rng: &mut Rng, wording: Wording) -> (Self, String) {
        let mut fields: Vec<String> = rng.pick(&FIELDS).iter().map(|field| field.to_string()).collect();
        for field in &mut fields {
            let others = match field.as_str() {
                "item" => &WORDS,
                "age" => &NUMBERS,
                _ => continue,
            };
            if rng.coin() {
                *field = (*rng.pick(others)).to_string();
            }
        }
        if rng.below(5) == 0 {
            fields = rng.sample(&fields, fields.len());
        }
        let has = |field: &str| fields.iter().any(|known| known == field);
        let first = (has("id") && rng.coin()).then(|| if rng.below(3) == 0 { 1 } else { rng.between(1, 95) });
        let domain = (has("email") && rng.coin()).then(|| (*rng.pick(&DOMAINS)).to_string());
        let count = match fields.len() {
            0..=2 => rng.between(2, 4),
            3 if rng.below(8) == 0 => 4,
            3 => rng.between(2, 3),
            4 => rng.between(2, 3),
            _ => 2,
        };
        let step = if first.is_some() && rng.below(4) == 0 { *rng.pick(&[2, 5, 10]) } else { 1 };
        let what = if has("name") {
            *rng.pick(&["people", "users", "customers", "members"])
        } else {
            *rng.pick(&["orders", "items", "products", "sales"])
        };
        let records = Self { count: count as usize, fields, first, step, domain };
        let notes = records.notes(rng);
        let (last, before) =
            records.fields.split_last().map_or(("", &[][..]), |(last, rest)| (last.as_str(), rest));
        let mut listed = format!("{} and {last}", before.join(", "));
        if rng.below(6) == 0 {
            let article = |field: &String| lexicon::a(field);
            listed = format!(
                "{} and {}",
                before.iter().map(article).collect::<Vec<_>>().join(", "),
                lexicon::a(last)
            );
        }
        let prompt = told(
            rng,
            wording,
            "records",
            records.count,
            &[("fields", &listed), ("notes", &notes), ("what", what)],
        );
        (records, prompt)
    }

    fn key(&self) -> String {
        format!("{}:{}:{:?}:{}:{:?}", self.count, self.fields.join(","), self.first, self.step, self.domain)
    }

    fn answer(&self, rng: &mut Rng, _wording: Wording) -> Vec<String> {
        let usual = obvious::chosen(rng);
        let first = self.first.unwrap_or_else(|| if usual { 1 } else { rng.between(1, 95) });
        let any = |rng: &mut Rng| (*rng.pick(&DOMAINS)).to_string();
        let domain =
            self.domain.clone().unwrap_or_else(|| if usual { DOMAINS[0].to_string() } else { any(rng) });
        let [mut names, mut items] = if usual {
            ["name", "thing"].map(|kind| obvious::chain(kind).into_iter().map(str::to_owned).collect())
        } else {
            self.drawn(rng)
        };
        names.truncate(self.count);
        items.truncate(self.count);
        let record = |(at, (name, item)): (usize, (&String, &String))| {
            let (price, quantity) = (rng.between(1, 20), rng.between(1, 9));
            let age = rng.between(18, 80);
            let field = |field: &String| {
                let value = match field.as_str() {
                    other if WORDS.contains(&other) => format!("\"{item}\""),
                    other if NUMBERS.contains(&other) => age.to_string(),
                    "id" => (first + self.step * at as i64).to_string(),
                    "age" => age.to_string(),
                    "item" => format!("\"{item}\""),
                    "name" => format!("\"{name}\""),
                    "email" => format!("\"{}@{domain}\"", name.to_lowercase()),
                    "price" => price.to_string(),
                    "quantity" => quantity.to_string(),
                    _ => (price * quantity).to_string(),
                };
                format!("\"{field}\": {value}")
            };
            format!("{{{}}}", self.fields.iter().map(field).collect::<Vec<_>>().join(", "))
        };
        names.iter().zip(&items).enumerate().map(record).collect()
    }

    fn read(&self, response: &str, _parts: &[&str]) -> Option<String> {
        let text = response.trim();
        let records: Vec<Map<String, Value>> = if text.starts_with('[') {
            serde_json::from_str(text).ok()?
        } else {
            let lines = text.lines().map(|line| line.trim().trim_end_matches(','));
            lines
                .filter(|line| !line.is_empty())
                .map(|line| serde_json::from_str(line).ok())
                .collect::<Option<_>>()?
        };
        let mut before = None;
        for record in &records {
            if !self.fits(record, before)? {
                return None;
            }
            before = Some(record);
        }
        let names: Vec<&Value> = records.iter().filter_map(|record| record.get("name")).collect();
        let domains: Vec<&str> = records
            .iter()
            .filter_map(|record| record.get("email")?.as_str()?.split_once('@').map(|(_, domain)| domain))
            .collect();
        let right =
            records.len() == self.count && super::read::distinct(&names) && super::read::uniform(&domains);
        right.then(|| serde_json::to_string(&records).unwrap_or_default())
    }
}
