//! Links of the docs to files of the repository.

use crate::page::{links, pages, repository, text};
use anyhow::{Context, Result, ensure};
use terrace_proof::proof;

#[test]
fn links_lead_to_files() {
    proof(|| -> Result<()> {
        let mut checked = 0;
        for page in pages()? {
            let folder = repository()?.join(&page).parent().context("a folder")?.to_owned();
            for link in links(&text(&page)?) {
                let path = link.split('#').next().unwrap_or_default();
                if !path.is_empty() && !path.contains("://") {
                    ensure!(folder.join(path).exists(), "{page} links to {path}");
                    checked += 1;
                }
            }
        }
        ensure!(checked > 20, "only {checked} links were found");
        Ok(())
    });
}
