//! `demask chat`: a conversation in the terminal.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Result;
use demask_decode::StrategySpec;
use demask_model::text::Message;

use crate::args::{DecodeArgs, ModelArgs};
use crate::command::generate::ShowArgs;
use crate::decoding::decode;
use crate::loaded::Loaded;

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
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    decode: DecodeArgs,
    #[command(flatten)]
    show: ShowArgs,
}

struct Chat<'a> {
    loaded: Loaded,
    args: &'a Args,
    system: Option<String>,
    messages: Vec<Message>,
    strategy: StrategySpec,
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let loaded = Loaded::open(&args.model)?;
    let strategy = loaded.strategy(&args.decode);
    let system = args.system.clone();
    let mut chat = Chat { loaded, args, system, messages: Vec::new(), strategy, seed: args.decode.seed };
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        eprintln!("{} · {} · /help for commands", chat.loaded.folder.display(), chat.strategy);
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
                strategy.build(&self.loaded.context)?;
                self.strategy = strategy;
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
        let ids = self.prompt()?;
        let canvas = self.loaded.canvas(&ids, &self.args.decode)?;
        let mut options = self.loaded.options(&self.args.decode, ids.len())?;
        options.seed = self.seed;
        let finished = decode(&self.loaded, canvas, &self.strategy, options, &self.args.show.watching())?;
        let text = self.loaded.text(finished.job.canvas())?;
        println!("{text}");
        if self.args.show.stats {
            finished.tell();
        }
        self.messages.push(Message::new("assistant", text));
        Ok(())
    }

    fn prompt(&self) -> Result<Vec<u32>> {
        if self.loaded.chat.is_none() {
            // Without a template a conversation is its texts, one after another.
            let texts: Vec<&str> = self.messages.iter().filter_map(Message::text).collect();
            return self.loaded.encode_prompt(&texts.join("\n"), true);
        }
        let system = self.system.iter().map(|s| Message::new("system", s.clone()));
        let messages: Vec<Message> = system.chain(self.messages.iter().cloned()).collect();
        self.loaded.encode_chat(&messages)
    }
}
