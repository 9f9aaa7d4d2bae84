//! Which upstream made a response: an extension of the response, for the access log.

use std::sync::Arc;

/// The upstream's name.
#[derive(Clone)]
pub struct AnsweredBy(pub Arc<str>);
