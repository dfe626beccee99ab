//! The policy for dependencies: `deny.toml` and the root `Cargo.toml` against what the workspace
//! really depends on. `cargo deny check` says the same and more; this test needs no further tool.

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace_proof::{proof, run};

const TARGET: &str = "x86_64-unknown-linux-gnu";

#[test]
fn licences_are_allowed() {
    proof(|| -> Result<()> {
        let allowed = list(&text("deny.toml")?, "allow")?;
        for package in packages()? {
            let licence =
                package.licence.with_context(|| format!("{}: no licence", package.name))?;
            ensure!(is_allowed(&licence, &allowed)?, "{}: {licence}", package.name);
        }
        Ok(())
    });
}

/// Simulators and planted bugs are for tests.
#[test]
fn the_command_is_built_without_what_only_tests_need() {
    proof(|| -> Result<()> {
        let tree = run(Command::new("cargo").args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "terrace",
            "--edges",
            "features,no-dev",
            "--target",
            TARGET,
            "--prefix",
            "none",
        ]))?;
        ensure!(tree.contains("terrace-media feature \"default\""), "no features: {tree}");
        for feature in ["simulators", "planted"] {
            ensure!(!tree.contains(&format!(" feature \"{feature}\"")), "{feature}: {tree}");
        }
        Ok(())
    });
}

#[test]
fn everything_comes_from_an_allowed_registry() {
    proof(|| -> Result<()> {
        let allowed = list(&text("deny.toml")?, "allow-registry")?;
        for lock in ["Cargo.lock", "proof/fuzz/Cargo.lock"] {
            let text = text(lock)?;
            let sources: BTreeSet<_> =
                text.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
            ensure!(!sources.is_empty(), "{lock} names no source");
            for source in sources {
                let registry = source.trim_matches('"').strip_prefix("registry+");
                ensure!(registry.is_some_and(|url| allowed.contains(url)), "{lock}: {source}");
            }
        }
        Ok(())
    });
}

#[test]
fn no_crate_has_two_versions_without_a_reason() {
    proof(|| -> Result<()> {
        let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in packages()? {
            versions.entry(package.name).or_default().insert(package.version);
        }
        versions.retain(|_, versions| versions.len() > 1);
        let deny = text("deny.toml")?;
        let skipped = deny.lines().filter_map(|line| line.trim().strip_prefix("{ crate = \""));
        for entry in skipped {
            let (name, rest) = entry.split_once('@').context("NAME@VERSION")?;
            let (version, rest) = rest.split_once('"').context("a closing quote")?;
            ensure!(rest.starts_with(", reason = \""), "{entry}: no reason");
            let known = versions.get_mut(name).with_context(|| format!("{name} is there once"))?;
            known.retain(|other| other != version && !other.starts_with(&format!("{version}.")));
        }
        versions.retain(|_, versions| versions.len() > 1);
        ensure!(versions.is_empty(), "neither one version nor an entry in deny.toml: {versions:?}");
        Ok(())
    });
}

#[test]
fn each_dependency_of_the_workspace_has_a_reason_and_a_user() {
    proof(|| -> Result<()> {
        let used: BTreeSet<String> = packages()?
            .into_iter()
            .filter(|package| package.is_member)
            .flat_map(|package| package.dependencies)
            .collect();
        let manifest = text("Cargo.toml")?;
        let (_, section) =
            manifest.split_once("\n[workspace.dependencies]\n").context("no dependencies")?;
        let mut previous = "";
        for line in section.lines().take_while(|line| !line.starts_with('[')) {
            if let Some((name, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
                let is_own = value.starts_with("{ path");
                ensure!(is_own || previous.starts_with("# "), "no reason above: {line}");
                ensure!(used.contains(name), "no crate uses {name}");
            }
            previous = line;
        }
        Ok(())
    });
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Zlib".to_owned()]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("(GPL-3.0 OR MIT) AND Unicode-3.0", false),
        ("GPL-3.0 AND MIT OR Zlib", true),
        ("MIT WITH Some-exception", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed).unwrap(), expected, "{expression}");
    }
    assert!(is_allowed("(MIT", &allowed).is_err());
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(file: &str) -> Result<String> {
    std::fs::read_to_string(repository().join(file)).with_context(|| file.to_owned())
}

/// The strings of the list `key` in a TOML file, each on a line of its own.
fn list(toml: &str, key: &str) -> Result<BTreeSet<String>> {
    let (_, rest) = toml.split_once(&format!("\n{key} = [\n")).with_context(|| key.to_owned())?;
    let (items, _) = rest.split_once("\n]").context("the list has no end")?;
    Ok(items.lines().map(|line| line.trim().trim_matches(&['"', ','][..]).to_owned()).collect())
}

struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    is_member: bool,
    dependencies: Vec<String>,
}

/// Every package that a build for [`TARGET`] knows, tests and build scripts included.
fn packages() -> Result<Vec<Package>> {
    let printed = run(Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", TARGET])
        .current_dir(repository()))?;
    let metadata: serde_json::Value = serde_json::from_str(&printed)?;
    let string = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().context("no packages")?;
    ensure!(packages.len() > 50, "only {} packages", packages.len());
    Ok(packages
        .iter()
        .map(|package| Package {
            name: string(&package["name"]),
            version: string(&package["version"]),
            licence: package["license"].as_str().map(str::to_owned),
            is_member: package["source"].is_null(),
            dependencies: package["dependencies"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|dependency| string(&dependency["name"]))
                .collect(),
        })
        .collect())
}

/// Whether one may take a work with this SPDX expression under `allowed` licences alone. A licence
/// with an exception is another licence.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let result = any_of(&mut rest, allowed)?;
    ensure!(rest.is_empty(), "{expression}: what is {rest:?}?");
    Ok(result)
}

fn any_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Result<bool> {
    let mut result = all_of(rest, allowed)?;
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        result |= all_of(rest, allowed)?;
    }
    Ok(result)
}

fn all_of(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Result<bool> {
    let mut result = one(rest, allowed)?;
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        result &= one(rest, allowed)?;
    }
    Ok(result)
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> Result<bool> {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let result = any_of(rest, allowed)?;
            let [")", tail @ ..] = *rest else { bail!("no closing parenthesis") };
            *rest = tail;
            Ok(result)
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            Ok(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        [licence, tail @ ..] => {
            *rest = tail;
            Ok(allowed.contains(*licence))
        }
        [] => bail!("a licence is missing"),
    }
}
