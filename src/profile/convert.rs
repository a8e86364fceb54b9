//! From the raw mirror to a [`Profile`].

use super::address::Base;
use super::credentials::{self, AUTHORIZATION};
use super::endpoint::{Endpoint, Rules};
use super::error::ProfileError;
use super::headers;
use super::known;
use super::raw::{Field, Section, Source};
use super::sections;
use super::tls::{self, TlsSection};
use super::{LedgerRules, Loads, Profile, ProxyRules, Reading, Secrets, World};
use crate::engine::operation::{Announce, PartnerName};
use crate::engine::policy::{RETENTION_UNSTATED, RetryPolicy, Sizes};
use crate::engine::secret::Mask;
use std::path::Path;

/// The format that this version reads.
const VERSION: u32 = 1;

/// Reads the `text` of the profile at `path`.
pub(super) fn convert(path: &Path, text: &str, world: &dyn World) -> Result<Profile, ProfileError> {
    let file = path.display().to_string();
    let source = Source::new(&file, text);
    let table = source.parse()?;
    let root = source.root(&table)?;
    if let Some(field) = root.get("version") {
        field.count(VERSION..=VERSION)?;
    }
    let home = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reading = Reading { world, home, secrets: secrets(&root)?, mask: Mask::default() };
    let base = root.get("base_url").map(|field| Base::read(&field, &mut reading)).transpose()?;
    let rules = Rules::read(&root, &Rules::default(), &mut reading)?;
    let endpoints = match root.get("endpoint") {
        Some(field) => {
            let sections = field.sections(known::ENDPOINT)?;
            sections.iter().map(|section| Endpoint::read(section, &rules, &mut reading)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    let mut profile = Profile {
        path: path.to_owned(),
        absolute: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        partner: root.get("partner").map(|field| partner(&field)).transpose()?,
        account: root.get("account").map(|field| account(&field)).transpose()?,
        ledger: LedgerRules::default(),
        loads: Loads::default(),
        proxy: ProxyRules::default(),
        tls: TlsSection::default(),
        mask: Mask::default(),
        base,
        headers: Vec::new(),
        auth: None,
        announce: Announce::default(),
        announce_operation: None,
        secrets: Secrets::default(),
        retry: RetryPolicy::default(),
        error_message: None,
        sizes: Sizes::default(),
        rules,
        endpoints,
        stated: source.stated(&table),
    };
    profile.read_common(&root)?;
    if let Some(section) = root.section("proxy", known::PROXY)? {
        profile.proxy = ProxyRules::read(&section, &mut reading)?;
    }
    profile.read_headers(&root, &mut reading)?;
    if let Some(section) = root.section("tls", known::TLS)? {
        profile.tls = tls::read(&section, &mut reading)?;
    }
    profile.secrets = reading.secrets;
    profile.mask = reading.mask;
    Ok(profile)
}

impl Profile {
    /// Reads the sections that no endpoint overrides.
    fn read_common(&mut self, root: &Section<'_>) -> Result<(), ProfileError> {
        if let Some(section) = root.section("retry", known::RETRY)? {
            self.retry = sections::retry(&section)?;
        }
        if let Some(section) = root.section("error", known::ERROR)? {
            self.error_message = section.get("message").map(|field| field.pointer()).transpose()?;
        }
        if let Some(section) = root.section("limits", known::LIMITS)? {
            (self.loads, self.sizes) = sections::limits(&section)?;
        }
        if let Some(section) = root.section("ledger", known::LEDGER)? {
            let rules = std::iter::once(&self.rules).chain(self.endpoints.iter().map(|endpoint| &endpoint.rules));
            let retention = rules.map(|rules| rules.idempotency.retention.unwrap_or(RETENTION_UNSTATED)).max();
            self.ledger = sections::ledger(&section, retention.unwrap_or_default())?;
        }
        Ok(())
    }

    /// Reads what ends up in header fields: no two settings may name the same one.
    fn read_headers(&mut self, root: &Section<'_>, reading: &mut Reading<'_>) -> Result<(), ProfileError> {
        if let Some(field) = root.get("headers") {
            let section = field.open_section()?;
            self.headers = headers::read(&section, reading)?;
            for (name, field) in section.entries() {
                if self.is_key_header(name) {
                    let why = "is the header of the idempotency key, which differs for every operation";
                    return Err(field.refused(why, Some("leave it out; `abide send --key` gives the key")));
                }
            }
        }
        if let Some(section) = root.section("auth", known::AUTH)? {
            let stated = self.headers.iter().any(|header| header.name.eq_ignore_ascii_case(AUTHORIZATION));
            if stated {
                return Err(section.refused("and an Authorization under [headers] are both stated", None));
            }
            self.auth = Some(credentials::read(&section, reading)?);
        }
        if let Some(section) = root.section("announce", known::ANNOUNCE)? {
            self.announce = Announce {
                attempt: self.announced(&section, "attempt")?,
                time_left_ms: self.announced(&section, "time_left_ms")?,
            };
            self.announce_operation = self.announced(&section, "operation")?;
        }
        Ok(())
    }

    fn announced(&self, section: &Section<'_>, key: &str) -> Result<Option<Box<str>>, ProfileError> {
        let Some(field) = section.get(key) else { return Ok(None) };
        let name = field.text()?;
        headers::check_name(name).map_err(|why| field.refused(why.to_string(), None))?;
        let others = known::ANNOUNCE.iter().filter(|other| **other != key);
        let mut taken = others.filter_map(|other| section.text(other).ok().flatten());
        let stated = self.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
        if stated || self.is_key_header(name) || taken.any(|other| other.eq_ignore_ascii_case(name)) {
            return Err(field.refused(format!("names {name}, which is stated elsewhere already"), None));
        }
        Ok(Some(name.into()))
    }

    fn is_key_header(&self, name: &str) -> bool {
        let rules = std::iter::once(&self.rules).chain(self.endpoints.iter().map(|endpoint| &endpoint.rules));
        rules.filter_map(Rules::key_header).any(|header| header.eq_ignore_ascii_case(name))
    }
}

fn partner(field: &Field<'_>) -> Result<PartnerName, ProfileError> {
    PartnerName::new(field.text()?)
        .ok_or_else(|| field.refused("must have 1 to 255 bytes and no control characters", None))
}

fn account(field: &Field<'_>) -> Result<Box<str>, ProfileError> {
    match field.text()? {
        text if text.is_empty() || text.chars().any(char::is_control) => {
            Err(field.refused("must not be empty or hold control characters", None))
        }
        text => Ok(text.into()),
    }
}

/// Reads `[secrets]`.
fn secrets(root: &Section<'_>) -> Result<Secrets, ProfileError> {
    let Some(section) = root.section("secrets", known::SECRETS)? else { return Ok(Secrets::default()) };
    let names = |key| match section.get(key) {
        Some(field) => field.items().iter().map(|item| item.text().map(Into::into)).collect(),
        None => Ok(Vec::new()),
    };
    Ok(Secrets { query: names("query")?, headers: names("headers")? })
}
