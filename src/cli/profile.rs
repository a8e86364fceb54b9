//! `abide profile check` and `abide profile show`.

use super::args::{ProfileChoice, ProfileCommand};
use super::exit::{Exit, Failure};
use super::{Format, Session, plan, trust};
use crate::report::json::line;
use crate::report::table::table;
use abide::profile::{self, Level, Profile, SettingOrigin};
use serde::Serialize;

/// Does what the subcommand asks.
///
/// # Errors
/// The profile is missing or wrong.
pub fn run(command: &ProfileCommand, session: &Session) -> Result<Exit, Failure> {
    match command {
        ProfileCommand::Check(choice) => check(&chosen(choice, session)?, session),
        ProfileCommand::Show(choice) => show(&chosen(choice, session)?, session),
    }
}

fn chosen(choice: &ProfileChoice, session: &Session) -> Result<Profile, Failure> {
    let named = choice.name.as_deref().or(choice.profile.as_deref());
    plan::profile_of(named, session)?
        .ok_or_else(|| Failure::usage("which profile?").hint("abide profile check NAME|PATH, or set ABIDE_PROFILE"))
}

#[derive(Serialize)]
struct Checked<'a> {
    schema: &'static str,
    profile: String,
    /// What is wrong is refused before this is written.
    valid: bool,
    remarks: Vec<Remarked<'a>>,
}

#[derive(Serialize)]
struct Remarked<'a> {
    level: &'static str,
    endpoint: Option<&'a str>,
    text: &'a str,
}

fn check(profile: &Profile, session: &Session) -> Result<Exit, Failure> {
    trust::check(profile, session)?;
    let remarks = profile::check(profile);
    if session.format == Format::Json {
        let remarked = |remark| {
            let profile::Remark { level, endpoint, text }: &profile::Remark = remark;
            Remarked { level: level_name(*level), endpoint: endpoint.as_deref(), text }
        };
        let document = Checked {
            schema: "abide.profile.check/1",
            profile: profile.path.display().to_string(),
            valid: true,
            remarks: remarks.iter().map(remarked).collect(),
        };
        session.print(&line(&document))?;
        return Ok(Exit::Fine);
    }
    let mut lines = vec![format!("{}: valid", profile.path.display())];
    for remark in &remarks {
        let about = remark.endpoint.as_ref().map(|endpoint| format!("{endpoint}: ")).unwrap_or_default();
        lines.push(format!("{:<8} {about}{}", level_name(remark.level), remark.text));
    }
    session.print(&lines.join("\n"))?;
    Ok(Exit::Fine)
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::Note => "note",
        Level::Advice => "advice",
        Level::Warning => "warning",
    }
}

#[derive(Serialize)]
struct Settings<'a> {
    schema: &'static str,
    profile: String,
    settings: Vec<Set<'a>>,
}

#[derive(Serialize)]
struct Set<'a> {
    name: &'a str,
    value: &'a str,
    origin: &'static str,
    line: Option<u32>,
}

fn show(profile: &Profile, session: &Session) -> Result<Exit, Failure> {
    let settings = profile::show(profile);
    if session.format == Format::Json {
        let set = |setting| {
            let profile::Setting { name, value, origin }: &profile::Setting = setting;
            let (origin, line) = match origin {
                SettingOrigin::Default => ("default", None),
                SettingOrigin::Line(line) => ("profile", Some(*line)),
            };
            Set { name, value, origin, line }
        };
        let document = Settings {
            schema: "abide.profile.show/1",
            profile: profile.path.display().to_string(),
            settings: settings.iter().map(set).collect(),
        };
        session.print(&line(&document))?;
        return Ok(Exit::Fine);
    }
    let path = profile.path.display();
    let rows = settings.iter().map(|setting| {
        let origin = match setting.origin {
            SettingOrigin::Default => "default".to_owned(),
            SettingOrigin::Line(line) => format!("{path}:{line}"),
        };
        vec![setting.name.to_string(), setting.value.to_string(), origin]
    });
    session.print(&table(&["setting", "value", "from"], rows.collect()))?;
    Ok(Exit::Fine)
}
