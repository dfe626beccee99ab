//! Programs run with the library, over its backend for tests, as they run without it.

mod programs;
mod runs;
mod table;
mod tools;
