//! Models of devices, as the command line chooses them.

use std::fmt;
use std::str::FromStr;

use terrace_media::{DeviceModel, UnknownModel};

use crate::output::{quoted, shortened};

/// Which device a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelTarget {
    /// The PM device.
    Pm,
    /// Every disk that has no model of its own.
    Disks,
    /// The disk with this device index.
    Disk(u16),
}

/// `DEVICE=MODEL`, as in `disk=sata-ssd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    /// The device.
    pub target: ModelTarget,
    /// How slow to make it.
    pub model: DeviceModel,
}

impl FromStr for ModelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form =
            || format!("{}: a model is given as pm=MODEL, disk=MODEL or disk1=MODEL", quoted(text));
        let (device, model) = text.split_once('=').ok_or_else(form)?;
        let target = match device {
            "pm" => ModelTarget::Pm,
            "disk" => ModelTarget::Disks,
            _ => match device.strip_prefix("disk").map(str::parse) {
                Some(Ok(index)) if index > 0 => ModelTarget::Disk(index),
                _ => return Err(form()),
            },
        };
        let unknown = |name: &str| UnknownModel { name: shortened(name).into_owned() };
        let model = model.parse().map_err(|_| format!("{}: {}", quoted(text), unknown(model)))?;
        Ok(ModelChoice { target, model })
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target {
            ModelTarget::Pm => f.write_str("pm=")?,
            ModelTarget::Disks => f.write_str("disk=")?,
            ModelTarget::Disk(index) => write!(f, "disk{index}=")?,
        }
        let is_it = |name: &&&str| name.parse() == Ok(self.model);
        f.write_str(DeviceModel::NAMES.iter().find(is_it).unwrap_or(&"unknown"))
    }
}

/// The model chosen for a device (0: PM), the most particular one first, the last one given first.
pub fn model_of(models: &[ModelChoice], device_index: u16) -> Option<DeviceModel> {
    let find = |target| {
        models.iter().rev().find(|choice| choice.target == target).map(|choice| choice.model)
    };
    match device_index {
        0 => find(ModelTarget::Pm),
        index => find(ModelTarget::Disk(index)).or_else(|| find(ModelTarget::Disks)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_particular_model_is_taken() {
        let models: Vec<ModelChoice> = ["disk=hdd", "disk2=sata-ssd", "disk=optane-ssd"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        assert_eq!(model_of(&models, 0), None);
        assert_eq!(model_of(&models, 1), "optane-ssd".parse().ok());
        assert_eq!(model_of(&models, 2), "sata-ssd".parse().ok());
    }
}
