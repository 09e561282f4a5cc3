//! `demask chat`: a conversation in the terminal, with a model in this process or behind a server.

mod local;
mod remote;

use std::cell::RefCell;
use std::io::{BufRead, IsTerminal, Write};

use anyhow::Result;
use demask::decode::StrategySpec;
use demask::model::text::Message;

use crate::args::{DecodeArgs, ModelArgs};
use crate::command::generate::ShowArgs;
use local::Local;
use remote::Remote;

const HELP: &str = "/help             this list
/reset            forget the conversation
/retry            answer the last message again with the next seed
/system TEXT      set the system message and start over
/strategy NAME    change the decoder (see `demask strategies`)
/history          show the conversation
/exit             leave";

/// Talks with the model; /help lists commands
#[derive(Debug, clap::Args)]
pub struct Args {
    /// System message
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Talk to a running `demask serve` instead of loading a model, e.g. http://127.0.0.1:8080
    #[arg(long, value_name = "URL", conflicts_with_all = ["model", "predictor", "assistant", "policy", "sampler_layer",
          "information", "prior", "device", "dtype", "no_mmap", "threads", "watch", "pause", "quiet", "trace", "json"])]
    pub url: Option<String>,
    /// Key of that server [default: $DEMASK_API_KEY]
    #[arg(long, value_name = "KEY", requires = "url")]
    pub api_key: Option<String>,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    show: ShowArgs,
}

/// Whoever answers.
trait Partner {
    /// Who it is, for the first line.
    fn name(&self) -> String;
    /// The decoder when none was named.
    fn default_strategy(&self) -> String;
    /// Whether this decoder can be used.
    fn check(&self, strategy: &StrategySpec) -> Result<()>;
    /// Answers and prints the answer, which is also returned.
    fn answer(&self, messages: &[Message], strategy: Option<&StrategySpec>, seed: u64) -> Result<String>;
}

struct Chat<'a> {
    partner: Box<dyn Partner + 'a>,
    system: Option<String>,
    messages: Vec<Message>,
    strategy: Option<StrategySpec>,
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let partner: Box<dyn Partner + '_> = match &args.url {
        Some(url) => Box::new(Remote::connect(url, args)?),
        None => Box::new(Local::open(args)?),
    };
    let (system, strategy) = (args.system.clone(), args.decode.strategy.clone());
    let mut chat = Chat { partner, system, messages: Vec::new(), strategy, seed: args.decode.seed };
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        let strategy =
            chat.strategy.as_ref().map_or_else(|| chat.partner.default_strategy(), ToString::to_string);
        eprintln!("{} · {strategy} · /help for commands", chat.partner.name());
    }
    let mut line = String::new();
    loop {
        if interactive {
            eprint!("> ");
            std::io::stderr().flush()?;
        }
        line.clear();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(());
        }
        match line.trim() {
            "" => {}
            "/exit" | "/quit" => return Ok(()),
            command if command.starts_with('/') => {
                if let Err(error) = chat.command(command) {
                    eprintln!("{error:#}");
                }
            }
            text => {
                chat.messages.push(Message::new("user", text));
                if let Err(error) = chat.answer() {
                    chat.messages.pop();
                    eprintln!("{error:#}");
                }
            }
        }
    }
}

impl Chat<'_> {
    fn command(&mut self, text: &str) -> Result<()> {
        let (name, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match (name, value.trim()) {
            ("/help", _) => eprintln!("{HELP}"),
            ("/reset", _) => self.messages.clear(),
            ("/system", value) => {
                self.system = Some(value.to_owned()).filter(|v| !v.is_empty());
                self.messages.clear();
            }
            ("/strategy", value) => {
                let strategy: StrategySpec = value.parse()?;
                self.partner.check(&strategy)?;
                self.strategy = Some(strategy);
            }
            ("/history", _) => {
                for message in &self.messages {
                    eprintln!("{}: {}", message.role(), message.text().unwrap_or_default());
                }
            }
            ("/retry", _) => {
                if self.messages.last().is_some_and(|m| m.role() == "assistant") {
                    self.messages.pop();
                }
                if self.messages.is_empty() {
                    eprintln!("there is nothing to answer yet");
                } else {
                    self.seed += 1;
                    self.answer()?;
                }
            }
            _ => eprintln!("there is no command {name}; /help lists them"),
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<()> {
        let system = self.system.iter().map(|s| Message::new("system", s.clone()));
        let messages: Vec<Message> = system.chain(self.messages.iter().cloned()).collect();
        let text = self.partner.answer(&messages, self.strategy.as_ref(), self.seed)?;
        self.messages.push(Message::new("assistant", text));
        Ok(())
    }
}

/// One line on standard error for each remark that was not made before.
fn once<'r>(told: &RefCell<Vec<String>>, remarks: impl IntoIterator<Item = &'r str>) {
    let mut told = told.borrow_mut();
    for remark in remarks {
        if !told.iter().any(|before| before == remark) {
            eprintln!("note: {remark}");
            told.push(remark.to_owned());
        }
    }
}

/// A conversation without a template: its texts, one after another, without the system's.
fn joined(messages: &[Message]) -> String {
    let texts = messages.iter().filter(|m| m.role() != "system").filter_map(Message::text);
    texts.collect::<Vec<_>>().join("\n")
}
