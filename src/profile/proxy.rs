//! `[proxy]`: which proxy is passed by.

use super::Reading;
use super::error::ProfileError;
use super::expand::{self, Piece};
use super::raw::{Field, Section};
use crate::engine::proxy::{Exclusions, Proxy};

/// Which proxy is passed by, where no flag says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRules {
    /// The proxy for every request.
    pub url: Option<Proxy>,
    /// What is reached directly, whoever names the proxy but a flag.
    pub exclusions: Exclusions,
    /// Without a `url`: whether the environment counts.
    pub from_env: bool,
}

impl Default for ProxyRules {
    /// Source: product.md section 4.
    fn default() -> ProxyRules {
        ProxyRules { url: None, exclusions: Exclusions::default(), from_env: true }
    }
}

impl ProxyRules {
    /// Reads `[proxy]`.
    pub(super) fn read(section: &Section<'_>, reading: &mut Reading<'_>) -> Result<ProxyRules, ProfileError> {
        let mut rules = ProxyRules::default();
        if let Some(field) = section.get("url") {
            let proxy = proxy(&field, reading)?;
            proxy.hide(&mut reading.mask);
            rules.url = Some(proxy);
        }
        if let Some(field) = section.get("no_proxy") {
            for item in field.items() {
                let (exclusions, unread) = Exclusions::read(item.text()?);
                if let Some(entry) = unread.first() {
                    let hint = "write a name, an address or a network such as 10.0.0.0/8, with :PORT for one port only";
                    return Err(item.refused(format!("has `{entry}`, which is neither host nor network"), Some(hint)));
                }
                rules.exclusions = rules.exclusions.and(&exclusions);
            }
        }
        if let Some(field) = section.get("from_env") {
            rules.from_env = field.flag()?;
        }
        Ok(rules)
    }
}

/// Reads a proxy's URL. A variable's value stands in it as it is, so that `%40` is an `@` there, too.
fn proxy(field: &Field<'_>, reading: &Reading<'_>) -> Result<Proxy, ProfileError> {
    let mut text = String::new();
    for piece in expand::template(field)? {
        match piece {
            Piece::Text(written) => text.push_str(written),
            Piece::Variable(name) => text.push_str(&expand::variable(field, name, reading.world)?),
        }
    }
    Proxy::parse(&text).map_err(|why| field.refused(why.to_string(), Some(why.hint())))
}
