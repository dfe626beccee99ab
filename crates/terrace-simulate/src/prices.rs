//! What bytes cost.
//!
//! The table of the TPFS paper (May 2022), in US dollars per GB of 10^9 bytes. Other prices come
//! from a text: a name and a price per line, `#` begins a remark.

use terrace_media::DeviceModel;

/// The name of memory in a table of prices; PM and disks have those of [`DeviceModel::NAMES`].
const DRAM: &str = "dram";
const DEFAULTS: [(&str, f64); 6] = [
    (DRAM, 7.19),
    ("pm", 3.37),
    ("optane-ssd", 0.47),
    ("nvme-ssd", 0.26),
    ("sata-ssd", 0.20),
    ("hdd", 0.02),
];
const GB: f64 = 1e9;

/// Prices per GB, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices(Vec<(String, f64)>);

/// A line of a text of prices cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadPrices {
    /// Which, from 1.
    pub line: usize,
    /// Why.
    pub what: String,
}

impl Default for Prices {
    fn default() -> Self {
        Self(DEFAULTS.iter().map(|&(name, price)| (name.to_owned(), price)).collect())
    }
}

impl Prices {
    /// The default prices, but for those that `text` names.
    ///
    /// # Errors
    /// A line that is no name and price, or names nothing that there is.
    pub fn parse(text: &str) -> Result<Self, BadPrices> {
        let mut prices = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let bad = |what: String| BadPrices { line: number + 1, what };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [name, price] => {
                    let known = prices.0.iter_mut().find(|(known, _)| known == name);
                    let names = || format!("{DRAM}, {}", DeviceModel::NAMES.join(", "));
                    let entry =
                        known.ok_or_else(|| bad(format!("{name:?} is none of {}", names())))?;
                    let price: Option<f64> =
                        price.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
                    entry.1 =
                        price.ok_or_else(|| bad(format!("{:?} is no price per GB", words[1])))?;
                }
                _ => {
                    return Err(bad("write a name and a price per GB, as in `pm 3.37`".to_owned()));
                }
            }
        }
        Ok(prices)
    }

    fn per_gb(&self, name: &str) -> f64 {
        self.0.iter().find(|(known, _)| known == name).map_or(0.0, |&(_, price)| price)
    }

    /// What PM, page cache and disks of these sizes cost together; `disk`: the name of their model.
    pub fn of(&self, pm_bytes: u64, cache_bytes: u64, disk: &str, disk_bytes: u64) -> f64 {
        let cost = |bytes: u64, name| bytes as f64 / GB * self.per_gb(name);
        cost(pm_bytes, "pm") + cost(cache_bytes, DRAM) + cost(disk_bytes, disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_a_price() {
        for name in DeviceModel::NAMES {
            assert!(Prices::default().per_gb(name) > 0.0, "{name}");
        }
    }

    #[test]
    fn a_text_changes_what_it_names() {
        let prices = Prices::parse("# of today\npm 5 # per GB\n\n  hdd   0.01\n").unwrap();
        let cost = prices.of(2_000_000_000, 1_000_000_000, "hdd", 100_000_000_000);
        assert!((cost - (10.0 + 7.19 + 1.0)).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn what_is_no_price_is_named_with_its_line() {
        for (text, line, part) in [
            ("pm 1\nfloppy 2", 2, "\"floppy\" is none of dram, pm"),
            ("pm one", 1, "\"one\" is no price"),
            ("pm -1", 1, "no price"),
            ("pm inf", 1, "no price"),
            ("\n\npm", 3, "as in `pm 3.37`"),
        ] {
            let error = Prices::parse(text).unwrap_err();
            assert!(error.line == line && error.to_string().contains(part), "{text:?}: {error}");
        }
    }
}
