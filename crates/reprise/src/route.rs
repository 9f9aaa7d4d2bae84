//! `reprise route URL`: what responds to a URL, and which rule says so, without asking a server.

use std::net::IpAddr;

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue};
use routing::explain::{self, Explanation, Question};

use crate::config;
use crate::exit::{Code, Failure};
use crate::flags::What;
use crate::plan;

/// What to explain.
#[derive(Args)]
pub struct Asked {
    /// A URL such as http://shop.example/a?b, or a path for any host
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    what: What,
    /// The method
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header of the request; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the explanation.
pub fn run(asked: &Asked) -> Result<Code, Failure> {
    let config = config::load(&asked.what)?;
    let applications = plan::front_applications(&config)?;
    let (host, target) = split(&asked.url).ok_or_else(|| {
        Failure::new(Code::Usage, asked.url.clone(), "is no URL").hint("http://shop.example/path, or /path")
    })?;
    let host = host.split(':').next().unwrap_or("").to_ascii_lowercase();
    let application = match host.as_str() {
        "" => applications.first(),
        host => explain::application(&applications, host),
    };
    let application = application.ok_or_else(|| {
        Failure::new(
            Code::Usage,
            asked.url.clone(),
            format!("no application has the host {host}: a client would get 421"),
        )
    })?;
    let headers = headers(&asked.header)?;
    let method = asked.method.to_ascii_uppercase();
    let question = Question { target, host: &host, method: &method, headers: &headers, address: Some(asked.address) };
    let told = explain::explain(application, &question);
    if asked.json {
        let text = serde_json::to_string_pretty(&told);
        println!("{}", text.map_err(|error| Failure::new(Code::Internal, "the explanation", error))?);
    } else {
        print!("{}", describe(&told));
    }
    Ok(Code::Success)
}

/// Host, and path with query.
fn split(url: &str) -> Option<(&str, &str)> {
    if url.starts_with('/') {
        return Some(("", url));
    }
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    Some((host, if target.is_empty() { "/" } else { target }))
}

fn headers(texts: &[String]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for text in texts {
        let wrong = || Failure::new(Code::Usage, "--header", format!("'{text}' is not NAME: VALUE"));
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let name: HeaderName = name.trim().parse().map_err(|_| wrong())?;
        headers.append(name, HeaderValue::from_str(value.trim()).map_err(|_| wrong())?);
    }
    Ok(headers)
}

fn describe(told: &Explanation) -> String {
    let mut text = format!("application  {}\npath         {}\n", told.application, told.path);
    for step in &told.steps {
        let did = match (&step.did, step.fits) {
            (Some(did), _) => did.as_str(),
            (None, true) => "fits",
            (None, false) => "does not fit",
        };
        text.push_str(&format!("  {}: {} at {}: {did}\n", step.place, step.rule, step.path));
    }
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("{name:<12} {value}\n"));
        }
    };
    line("rewritten", told.rewritten.as_deref());
    line("password of", (!told.realms.is_empty()).then(|| told.realms.join(", ")).as_deref());
    for (name, value) in &told.headers {
        line("header", Some(&format!("{name}: {value}")));
    }
    for limit in &told.limits {
        line("limit", Some(&format!("{} {} ({})", limit.name, limit.value, limit.from)));
    }
    line("decided by", told.by.as_deref());
    line("result", Some(&told.result));
    text
}
