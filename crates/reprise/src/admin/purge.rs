//! `reprise purge` and `reprise cache`: what the cache of responses has, and what is to go.

use cache::purge::{Purge, What};
use clap::{Args, Subcommand};
use control::which::Which;

use super::question;
use crate::exit::{Code, Failure};

/// What is to go.
#[derive(Args)]
pub struct Asked {
    /// Responses with this tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The responses of this URL, or of this path and query on every host; may be repeated
    #[arg(long = "url", value_name = "URL")]
    urls: Vec<String>,
    /// All whose URL or path begins so; may be repeated
    #[arg(long = "prefix", value_name = "URL")]
    prefixes: Vec<String>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// They become stale: each is sent once more while it is renewed
    #[arg(long)]
    soft: bool,
    /// Only in this application's cache
    #[arg(long, value_name = "NAME")]
    application: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// What is asked of the cache.
#[derive(Subcommand)]
pub enum CacheVerb {
    /// Say what the cache of responses has for a URL, for whom, and for how long; or why nothing is
    #[command(after_help = "Example:\n  reprise cache explain https://shop.example/shoes?page=2")]
    Explain {
        /// The URL
        #[arg(value_name = "URL")]
        url: String,
        #[command(flatten)]
        which: Which,
    },
    #[command(flatten)]
    Data(super::data::DataVerb),
}

/// `reprise purge`.
pub fn purge(asked: &Asked) -> Result<Code, Failure> {
    let mut whats = Vec::new();
    whats.extend(asked.tags.iter().cloned().map(What::Tag));
    whats.extend(asked.urls.iter().cloned().map(What::Url));
    whats.extend(asked.prefixes.iter().cloned().map(What::Prefix));
    if asked.all {
        whats.push(What::All);
    }
    let purge = Purge { whats, is_soft: asked.soft };
    if purge.whats.is_empty() {
        return Err(Failure::new(Code::Usage, "purge", "nothing is named").hint("--tag, --url, --prefix or --all"));
    }
    let text = purge.text();
    if Purge::parse(text.as_bytes()).is_none() {
        let why = "a name is empty, too long, or has a control character";
        return Err(Failure::new(Code::Usage, "purge", why).hint("at most 4,096 names; a tag has at most 1,024 bytes"));
    }
    let application = asked.application.as_deref().unwrap_or("");
    let answer = question(&asked.which, format!("purge\n{application}\n{text}"), "purge")?;
    println!("{answer}");
    Ok(Code::Success)
}

/// `reprise cache explain`.
pub fn explain(url: &str, which: &Which) -> Result<Code, Failure> {
    let wrong = || Failure::new(Code::Usage, url, "is no URL").hint("http://shop.example/shoes?page=2");
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    if !["http", "https"].contains(&scheme) || rest.contains(['\n', ' ']) {
        return Err(wrong());
    }
    let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let target = if target.is_empty() { "/" } else { target };
    print!("{}", question(which, format!("explain\n{scheme}\n{host}\n{target}"), url)?);
    Ok(Code::Success)
}
