//! Rules for the sources of this workspace, checked by `tests/workspace.rs`.
//!
//! * **Arrows point down.** An arrow leads from code to what it names in a `use` or in a path.
//!   Crates stand on floors ([`rules::CRATES`]), and so do the modules of some crates
//!   ([`rules::MODULES`]). No arrow leads up, and no arrows between sibling modules form a circle.
//! * **Lines and modules are short** ([`lines`]).
//! * **Nothing reads its own messages** ([`messages`]).
//!
//! | module | holds |
//! |---|---|
//! | [`rules`] | the rules as tables, which are all one edits |
//! | `arrows` | finds circles and upward arrows |
//! | `tree` | the modules of a crate, and what a path in one of them leads to |
//! | `parse` | the modules, items and paths of one file |
//! | `lexer` | the words of one file, without comments and strings |
//! | [`lines`] | widths and lengths |
//! | [`messages`] | finds code that makes a text and looks into it |
//! | [`files`] | finds crates and files |
//!
//! An arrow goes to the module that the path names. A re-export by a module above the user is only
//! a name, so the arrow goes on to where the name comes from. A child may name what its parent's
//! own file defines, and a parent its children: they are one module in several files. The root of a
//! crate is no such parent: it stands above all modules, and no module uses it.
//!
//! Code under `#[cfg(test)]`, and tests, examples and benchmarks of a crate, may use higher crates.

mod arrows;
pub mod files;
mod lexer;
pub mod lines;
pub mod messages;
mod parse;
pub mod rules;
mod tree;

pub use arrows::{Order, crate_arrows, module_arrows};
