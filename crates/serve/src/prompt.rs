//! What stands on the canvas before the first step: texts, token ids, conversations, texts with gaps.

use demask_engine::gaps::{Piece, split};
use demask_model::text::{Conversation, Message};
use serde_json::Value;

use crate::Served;
use crate::error::Refusal;
use crate::fields::{Fields, short};

type Result<T> = std::result::Result<T, Refusal>;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// The given part of a canvas.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    /// A response goes between two texts, the second mostly empty.
    /// `remarks`: what is to be said of a message that is none of the kinds the model is for, and of what its chat template
    /// leaves out.
    Open { before: Vec<u32>, after: Vec<u32>, remarks: Vec<String> },
    /// Masks are where tokens are to be found; `start` is where the shown text begins.
    /// `remarks` are as above, of the texts.
    Gaps { tokens: Vec<u32>, start: usize, remarks: Vec<String> },
}

impl Prompt {
    /// What is to be said of it.
    pub(crate) fn remarks(&self) -> &[String] {
        match self {
            Self::Open { remarks, .. } | Self::Gaps { remarks, .. } => remarks,
        }
    }

    /// Tokens that were given.
    pub(crate) fn given(&self, mask: u32) -> usize {
        match self {
            Self::Open { before, after, .. } => before.len() + after.len(),
            Self::Gaps { tokens, .. } => tokens.iter().filter(|&&t| t != mask).count(),
        }
    }
}

/// `prompt` (a string, strings, ids, or lists of ids) and `suffix`, with the text of each prompt for `echo`.
pub(crate) fn completions(fields: &mut Fields, served: &Served) -> Result<Vec<(Prompt, String)>> {
    let Some(value) = fields.take("prompt") else {
        return Err(Refusal::field("prompt", "is missing"));
    };
    let after = match fields.text("suffix")? {
        Some(suffix) => plain(served, "suffix", &suffix)?,
        None => Vec::new(),
    };
    let prompts = match value {
        Value::Array(list) if list.first().is_some_and(|v| !v.is_number()) => list,
        one => vec![one],
    };
    let encoded = prompts.into_iter().map(|prompt| {
        let (before, text) = encode(prompt, served)?;
        if !after.is_empty() && before.contains(&served.model.ids().mask) {
            return Err(Refusal::field(
                "prompt",
                "has the model's mask token in it, which a suffix does not allow",
            ));
        }
        Ok((Prompt::Open { before, after: after.clone(), remarks: Vec::new() }, text))
    });
    encoded.collect()
}

fn encode(prompt: Value, served: &Served) -> Result<(Vec<u32>, String)> {
    match prompt {
        Value::String(text) => Ok((tokens(served, "prompt", &text)?, text)),
        Value::Array(ref list) if !list.is_empty() => {
            let ids = ids("prompt", &prompt, served)?;
            let text = served.model.tokenizer().decode_verbatim(&ids)?;
            Ok((ids, text))
        }
        other => {
            let problem =
                format!("must be a string, a list of strings or of token ids, not {}", short(&other));
            Err(Refusal::field("prompt", problem))
        }
    }
}

/// A list of token ids.
pub(crate) fn ids(field: &str, value: &Value, served: &Served) -> Result<Vec<u32>> {
    let vocab = served.model.backbone().spec().vocab;
    let Some(list) = value.as_array() else {
        return Err(Refusal::field(field, format!("must be a list of token ids, not {}", short(value))));
    };
    let id = |v: &Value| v.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < vocab);
    let wrong = |v: &Value| Refusal::field(field, format!("{} is not a token id below {vocab}", short(v)));
    list.iter().map(|v| id(v).ok_or_else(|| wrong(v))).collect()
}

/// `messages` through the chat template.
pub(crate) fn chat(fields: &mut Fields, served: &Served) -> Result<Prompt> {
    let messages = match fields.take("messages") {
        None => return Err(Refusal::field("messages", "is missing")),
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(other) => {
            return Err(Refusal::field(
                "messages",
                format!("must be a list of messages, not {}", short(&other)),
            ));
        }
    };
    let Some(template) = served.model.text().chat() else {
        return Err(Refusal::field(
            "messages",
            "this model has no chat template; use POST /v1/completions with the prompt as it is",
        ));
    };
    let messages: Vec<Message> =
        messages.into_iter().enumerate().map(|(i, m)| message(i, m)).collect::<Result<_>>()?;
    let text = template.render(&Conversation::new(&messages))?;
    let before = tokens(served, "messages", &text)?;
    let left_out = served.model.text().left_out(&messages);
    let remark = served.model.remark(&demask_engine::Prompt::Chat(messages))?;
    let remarks = remark.into_iter().chain(left_out).map(str::to_owned).collect();
    Ok(Prompt::Open { before, after: Vec::new(), remarks })
}

/// A message whose content is one text: templates print parts as they are.
fn message(index: usize, value: Value) -> Result<Message> {
    let wrong = |problem: String| Refusal::field("messages", format!("message {index}: {problem}"));
    let Value::Object(mut map) = value else {
        return Err(wrong(format!("must be an object, not {}", short(&value))));
    };
    let role = map.get("role").and_then(Value::as_str).map(|r| if r == "developer" { "system" } else { r });
    let Some(role) = role.filter(|r| ROLES.contains(r)).map(str::to_owned) else {
        return Err(wrong(format!("`role` must be one of {}, developer", ROLES.join(", "))));
    };
    map.insert("role".into(), role.into());
    let content = match map.get("content") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            texts.ok_or_else(|| wrong("`content` may only have parts of text".into()))?.join("\n")
        }
        Some(other) => return Err(wrong(format!("`content` must be a string, not {}", short(other)))),
    };
    map.insert("content".into(), content.into());
    Message::try_from(map).map_err(|problem| wrong(problem.into()))
}

/// `text` with gaps `[MASK]` and `[MASK:5]`, behind an optional `prompt`; or `tokens`, ids with the mask's among them.
pub(crate) fn infill(fields: &mut Fields, served: &Served, longest: usize) -> Result<Prompt> {
    if let Some(value) = fields.take("tokens") {
        if fields.has("text") || fields.has("prompt") {
            return Err(Refusal::field("tokens", "is the whole canvas; give no text and no prompt with it"));
        }
        let tokens = ids("tokens", &value, served)?;
        if tokens.iter().filter(|&&t| t == served.model.ids().mask).count() > longest {
            return Err(Refusal::field(
                "tokens",
                format!("has more than this server's limit of {longest} masks"),
            ));
        }
        return Ok(Prompt::Gaps { tokens, start: 0, remarks: Vec::new() });
    }
    let Some(text) = fields.text("text")? else { return Err(Refusal::field("text", "is missing")) };
    let before = fields.text("prompt")?;
    let mut tokens = match &before {
        Some(prompt) => plain(served, "prompt", prompt)?,
        None => Vec::new(),
    };
    let start = tokens.len();
    tokens.extend(tokens_with_gaps(&text, served, longest)?);
    if !tokens[start..].contains(&served.model.ids().mask) {
        let problem = "has no gap; write [MASK] or [MASK:5] where tokens are to be found";
        return Err(Refusal::field("text", problem));
    }
    let asked = demask_engine::Prompt::infill(text);
    let asked = match before {
        Some(before) => asked.behind(before),
        None => asked,
    };
    let remarks = served.model.remark(&asked)?.into_iter().map(str::to_owned).collect();
    Ok(Prompt::Gaps { tokens, start, remarks })
}

/// Ids of a text whose gaps are masks.
pub(crate) fn tokens_with_gaps(text: &str, served: &Served, longest: usize) -> Result<Vec<u32>> {
    let (mut tokens, mut masks) = (Vec::new(), 0);
    for piece in split(text).map_err(|problem| Refusal::field("text", problem))? {
        match piece {
            Piece::Text(text) => tokens.extend(plain(served, "text", text)?),
            Piece::Gap(length) => {
                masks += length;
                if masks > longest {
                    let problem = format!("has gaps of more than this server's limit of {longest} tokens");
                    return Err(Refusal::field("text", problem));
                }
                tokens.extend(std::iter::repeat_n(served.model.ids().mask, length));
            }
        }
    }
    Ok(tokens)
}

/// Ids of a text. One that cannot fit the model however it is cut into tokens is refused before it is: cutting takes
/// hundreds of times its memory.
fn tokens(served: &Served, field: &str, text: &str) -> Result<Vec<u32>> {
    let context = served.model.backbone().spec().max_positions;
    let most = context.saturating_mul(served.model.tokenizer().longest());
    if text.len() > most {
        let length = text.len();
        return Err(Refusal::context(format!(
            "{field}: {length} bytes are more than the model's {context} tokens can hold ({most} bytes)"
        )));
    }
    Ok(served.model.tokenizer().encode(text)?)
}

/// Ids of a text beside masks, which must not bring masks of its own.
fn plain(served: &Served, field: &str, text: &str) -> Result<Vec<u32>> {
    let ids = tokens(served, field, text)?;
    if ids.contains(&served.model.ids().mask) {
        return Err(Refusal::field(
            field,
            "has the model's mask token in it; gaps are written [MASK] or [MASK:5]",
        ));
    }
    Ok(ids)
}
