//! What is wrong with bytes from media.

/// A structure on media that cannot be what it should be; the text names the structure and what is
/// wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LayoutError(pub String);
