//! How many open files of an inode this process has to itself. The daemon lends an inode only if
//! there are no others.

use std::collections::BTreeSet;

use crate::backend::File;
use crate::description::Description;
use crate::table;

/// How many open files of an inode take calls for this process alone: 0 if any of them is mapped.
pub(crate) fn of(file: &dyn File) -> u64 {
    let is_file = |description: &&Description| {
        description
            .inode()
            .is_some_and(|inode| std::ptr::addr_eq(inode.file, file) && inode.kept_off().is_none())
    };
    let descriptions = table::all().filter_map(|(_, entry)| entry.cell.load().description());
    let own = descriptions.map(Description::at).filter(is_file);
    let own = own.filter(|own| !own.state.load().stays());
    // Numbers that were duplicated share one.
    own.map(Description::address).collect::<BTreeSet<_>>().len() as u64
}
