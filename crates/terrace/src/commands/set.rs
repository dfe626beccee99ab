//! `terrace set`

use std::collections::BTreeMap;

use anyhow::Result;
use terrace_fuse::control;
use terrace_policy::TUNABLES;

use crate::cli::SetArgs;
use crate::report::Table;
use crate::{mounts, output, thresholds};

/// Changes thresholds, or shows them all.
pub fn run(args: &SetArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::terrace_at(&args.mountpoint)?.mountpoint;
    if !args.settings.is_empty() {
        let values: BTreeMap<String, u64> = args
            .settings
            .iter()
            .map(|&(param, value)| (param.tunable().name.to_owned(), value))
            .collect();
        control::set_thresholds(&mountpoint, &values)?;
        output::remark(
            quiet,
            &format!("{}: changed, until the volume is unmounted", mountpoint.display()),
        );
        return Ok(());
    }
    let values = control::thresholds(&mountpoint)?;
    if args.json {
        return output::print_json(&values);
    }
    let mut table = Table::new(&["THRESHOLD", ">VALUE", ">DEFAULT", "WHAT IT DECIDES"]);
    for tunable in &TUNABLES {
        // A daemon of another version may not know it.
        if let Some(&value) = values.get(tunable.name) {
            let text = |value| thresholds::value_text(tunable, value);
            table.row([
                tunable.name.to_owned(),
                text(value),
                text(tunable.default),
                tunable.about.to_owned(),
            ]);
        }
    }
    output::print(&table.to_text())
}
