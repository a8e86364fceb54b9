//! A disk of which the power is cut: what may be there afterwards.
//!
//! What was synced is there. Of a file's other writes every sector may be as after any of them, or as before; its length
//! too, so that a new one may come without its bytes: zeros. Of a folder's names every change that was not synced may be
//! there or not. A sync that failed has lost its pages: later syncs leave them out until they are written again, and the
//! names in a folder until it is altered again.

use super::log::{Event, Promise};
use super::stage::LEDGER;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// What a folder holds: files with their bytes, folders without.
pub type Image = BTreeMap<String, Option<Rc<Vec<u8>>>>;

/// The page that the system writes back, in bytes.
const PAGE: usize = 4_096;

/// Which syncs count for nothing: to see that the promises need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deaf {
    /// None: the disk does what it says.
    Never,
    /// Those of the ledger's file.
    Ledger,
    /// Those of bodies.
    Blobs,
    /// Those of folders.
    Folders,
}

/// A disk.
#[derive(Debug)]
pub struct Disk {
    deaf: Deaf,
    files: BTreeMap<usize, Content>,
    /// The names that are durable: of files by their number, of folders.
    names: Names,
    /// The names as programs see them.
    seen: Names,
    /// Changes of names that are not durable yet.
    renamings: Vec<Naming>,
    /// The folders whose names a failed sync has lost.
    lost: BTreeSet<String>,
}

type Names = BTreeMap<String, Option<usize>>;

#[derive(Clone, Debug)]
enum Naming {
    Link(String, Option<usize>),
    Move(String, String, Option<usize>),
    Unlink(String),
}

#[derive(Debug, Default)]
struct Content {
    durable: Vec<u8>,
    live: Vec<u8>,
    /// What writing back now would make durable, after each write since the last sync.
    versions: Vec<Rc<Vec<u8>>>,
    /// Where each of them differs from the one before.
    touched: Vec<Range<usize>>,
    /// How many of them there were when the sync began that is under way.
    syncing: usize,
    /// The pages that a failed sync has lost.
    lost: BTreeSet<usize>,
}

/// How much of a file's writes since its last sync is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    All,
    /// All but this one.
    But(usize),
    /// The length without the bytes.
    Length,
    Random,
}

/// What of the unsynced is there.
#[derive(Clone, Debug)]
pub struct Plan {
    files: BTreeMap<usize, Part>,
    others: Part,
    names: Vec<bool>,
}

impl Plan {
    /// Returns whether nothing is lost: the machine went on, and only the process died.
    pub fn is_whole(&self) -> bool {
        self.others == Part::All && self.files.is_empty() && self.names.iter().all(|there| *there)
    }
}

impl Disk {
    /// Returns an empty disk.
    pub fn new(deaf: Deaf) -> Disk {
        let (files, names, seen) = (BTreeMap::new(), Names::new(), Names::new());
        Disk { deaf, files, names, seen, renamings: Vec::new(), lost: BTreeSet::new() }
    }

    /// Takes what happened in. Returns false where a file or a folder is synced that has something which a failed sync
    /// lost.
    pub fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::Baseline(found) => {
                self.renamings.clear();
                self.lost.clear();
                self.seen = found.iter().map(|(name, id, _)| (name.clone(), *id)).collect();
                self.names = self.seen.clone();
                let files = found.iter().filter_map(|(_, id, bytes)| id.map(|id| (id, Content::new(bytes))));
                self.files = files.collect();
            }
            Event::Made(name, id) => {
                self.files.insert(*id, Content::default());
                self.rename(Naming::Link(name.clone(), Some(*id)));
            }
            Event::Folder(name) => self.rename(Naming::Link(name.clone(), None)),
            Event::Renamed(from, to) => self.rename(Naming::Move(from.clone(), to.clone(), self.seen[from])),
            Event::Removed(name) => self.rename(Naming::Unlink(name.clone())),
            Event::SyncedFolder(folder) if self.lost.contains(folder) => return false,
            // Nothing can write again what lies in the folders above the ledger's.
            Event::UnsyncedFolder(folder) if Path::new(folder).starts_with(folder_of(LEDGER)) => {
                let is_here = |naming: &Naming| naming.folder() == folder;
                self.lost.extend(self.renamings.iter().any(is_here).then(|| folder.clone()));
            }
            Event::SyncedFolder(folder) if self.deaf != Deaf::Folders => {
                let names = &mut self.names;
                self.renamings.retain(|naming| {
                    let is_here = naming.folder() == folder;
                    if is_here {
                        naming.apply(names);
                    }
                    !is_here
                });
            }
            Event::Wrote(id, at, bytes) => self.file(*id).write(*at as usize, bytes),
            Event::Cut(id, len) => self.file(*id).cut(*len as usize),
            Event::Syncing(id) => self.file(*id).begin_sync(),
            Event::Synced(id) if !self.is_deaf_to(*id) => return self.file(*id).sync(),
            Event::Unsynced(id) => self.file(*id).fail(),
            Event::SyncedFolder(_) | Event::UnsyncedFolder(_) | Event::Synced(_) | Event::Promise(_) => {}
        }
        true
    }

    fn is_deaf_to(&self, id: usize) -> bool {
        let name = self.seen.iter().find(|(_, file)| **file == Some(id)).map_or("", |(name, _)| name);
        match self.deaf {
            Deaf::Never | Deaf::Folders => false,
            Deaf::Ledger => name == LEDGER,
            Deaf::Blobs => name.strip_prefix(LEDGER).is_some_and(|name| name.starts_with(".blobs/")),
        }
    }

    /// Returns whether a failed sync has lost something of a file that nobody has written again.
    pub fn has_lost(&self, name: &str) -> bool {
        let id = self.seen.get(name).copied().flatten();
        id.is_some_and(|id| !self.files[&id].lost.is_empty())
    }

    fn file(&mut self, id: usize) -> &mut Content {
        self.files.get_mut(&id).expect("it was made")
    }

    fn rename(&mut self, naming: Naming) {
        naming.apply(&mut self.seen);
        self.lost.remove(naming.folder());
        self.renamings.push(naming);
    }

    /// Returns what may be there after a power cut: the extremes, each single thing missing, and `random` mixtures.
    pub fn plans(&self, random: usize, chance: &mut fastrand::Rng) -> Vec<Plan> {
        let count = self.renamings.len();
        let plan = |others, names: &dyn Fn(usize) -> bool| {
            let names = (0..count).map(names).collect();
            Plan { files: BTreeMap::new(), others, names }
        };
        let mut plans = vec![plan(Part::All, &|_| true), plan(Part::Nothing, &|_| false)];
        let dirty: Vec<usize> =
            self.files.iter().filter(|(_, content)| content.is_dirty()).map(|(id, _)| *id).collect();
        if !dirty.is_empty() && count > 0 {
            plans.push(plan(Part::Nothing, &|_| true));
            plans.push(plan(Part::All, &|_| false));
        }
        for one in 0..count {
            plans.push(plan(Part::All, &|other| other != one));
            plans.push(plan(Part::All, &|other| other < one));
        }
        for id in &dirty {
            let buts = (0..self.files[id].versions.len()).map(Part::But);
            for part in buts.chain([Part::Nothing, Part::Length]) {
                plans.push(Plan { files: [(*id, part)].into(), ..plan(Part::All, &|_| true) });
            }
        }
        if !dirty.is_empty() || count > 1 {
            for _ in 0..random {
                let names: Vec<bool> = (0..count).map(|_| chance.bool()).collect();
                plans.push(plan(Part::Random, &|one| names[one]));
            }
        }
        plans
    }

    /// Returns what is there by a plan.
    pub fn image(&self, plan: &Plan, chance: &mut fastrand::Rng) -> Image {
        let mut names = self.names.clone();
        let there = self.renamings.iter().zip(&plan.names).filter(|(_, there)| **there);
        there.for_each(|(naming, _)| naming.apply(&mut names));
        let is_there = |name: &str| {
            let mut folders = Path::new(name).ancestors().skip(1).filter(|folder| *folder != Path::new(""));
            folders.all(|folder| names.get(folder.to_str().expect("a name")) == Some(&None))
        };
        let mut contents = BTreeMap::new();
        let mut image = Image::new();
        for (name, id) in names.iter().filter(|(name, _)| is_there(name)) {
            let content = id.map(|id| {
                let part = *plan.files.get(&id).unwrap_or(&plan.others);
                contents.entry(id).or_insert_with(|| self.files[&id].part(part, chance)).clone()
            });
            image.insert(name.clone(), content);
        }
        image
    }
}

fn folder_of(name: &str) -> &Path {
    Path::new(name).parent().expect("it lies in one")
}

impl Naming {
    fn folder(&self) -> &str {
        let (Naming::Link(name, _) | Naming::Move(_, name, _) | Naming::Unlink(name)) = self;
        Path::new(name).parent().and_then(Path::to_str).expect("a name")
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Naming::Link(name, id) => drop(names.insert(name.clone(), *id)),
            Naming::Move(from, to, id) => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
            Naming::Unlink(name) => drop(names.remove(name)),
        }
    }
}

impl Content {
    fn new(bytes: &[u8]) -> Content {
        Content { durable: bytes.into(), live: bytes.into(), ..Content::default() }
    }

    fn is_dirty(&self) -> bool {
        !self.versions.is_empty()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = at + bytes.len();
        self.live.resize(self.live.len().max(to), 0);
        self.live[at..to].copy_from_slice(bytes);
        self.touch(at..to);
    }

    fn cut(&mut self, len: usize) {
        let touched = len.min(self.live.len())..len.max(self.live.len());
        self.live.resize(len, 0);
        self.touch(touched);
    }

    fn touch(&mut self, touched: Range<usize>) {
        for page in touched.start / PAGE..touched.end.div_ceil(PAGE) {
            self.lost.remove(&page);
        }
        self.versions.push(Rc::new(self.written_back()));
        self.touched.push(touched);
    }

    /// Returns what is durable once all that is dirty was written back.
    fn written_back(&self) -> Vec<u8> {
        let mut bytes = self.live.clone();
        for page in &self.lost {
            let (from, to) = ((page * PAGE).min(bytes.len()), ((page + 1) * PAGE).min(bytes.len()));
            for (at, byte) in bytes.iter_mut().enumerate().take(to).skip(from) {
                *byte = self.durable.get(at).copied().unwrap_or(0);
            }
        }
        bytes
    }

    fn begin_sync(&mut self) {
        self.syncing = self.versions.len();
    }

    /// What another thread wrote while the disk worked may be durable, or not.
    fn sync(&mut self) -> bool {
        let is_asked_once = self.lost.is_empty();
        let synced: Vec<_> = self.versions.drain(..std::mem::take(&mut self.syncing)).collect();
        self.touched.drain(..synced.len());
        if let Some(last) = synced.last() {
            self.durable = last.to_vec();
        }
        is_asked_once
    }

    fn fail(&mut self) {
        let pages = self.touched.iter().flat_map(|touched| touched.start / PAGE..touched.end.div_ceil(PAGE));
        self.lost.extend(pages);
        self.syncing = 0;
        self.versions.clear();
        self.touched.clear();
    }

    /// Returns what is there of the file.
    fn part(&self, part: Part, chance: &mut fastrand::Rng) -> Rc<Vec<u8>> {
        let Some(last) = self.versions.last() else { return Rc::new(self.durable.clone()) };
        match part {
            Part::Nothing => Rc::new(self.durable.clone()),
            Part::All => last.clone(),
            Part::Length => Rc::new(self.mixed(512, last.len(), |_| 0)),
            Part::But(one) => Rc::new(self.mixed(512, last.len(), |sector| {
                if overlap(&self.touched[one], &sector) { one } else { self.versions.len() }
            })),
            Part::Random => {
                let sector = *chance.choice(&[512, PAGE]).expect("two");
                let len = self.version(chance.usize(0..=self.versions.len())).len();
                Rc::new(self.mixed(sector, len, |_| chance.usize(0..=self.versions.len())))
            }
        }
    }

    /// Returns the file with every sector as after as many writes as `of` says.
    fn mixed(&self, sector: usize, len: usize, mut of: impl FnMut(Range<usize>) -> usize) -> Vec<u8> {
        let mut bytes = self.version(self.versions.len()).to_vec();
        bytes.resize(bytes.len().max(len), 0);
        let sectors: BTreeSet<usize> =
            self.touched.iter().flat_map(|touched| touched.start / sector..touched.end.div_ceil(sector)).collect();
        for at in sectors.iter().map(|number| number * sector) {
            let to = bytes.len().min(at + sector);
            let version = self.version(of(at..at + sector));
            for (byte, place) in bytes[at.min(to)..to].iter_mut().zip(at..) {
                *byte = version.get(place).copied().unwrap_or(0);
            }
        }
        bytes.truncate(len);
        bytes
    }

    fn version(&self, number: usize) -> &[u8] {
        number.checked_sub(1).map_or(&self.durable, |number| &self.versions[number])
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// What was promised so far.
#[derive(Clone, Debug, Default)]
pub struct Promised {
    /// The attempts that may have left, by key.
    pub sent: BTreeMap<String, u32>,
    /// The outcomes that were reported, by key.
    pub told: BTreeMap<String, crate::engine::verdict::Verdict>,
    /// Payloads that are gone, by key.
    pub forgotten: BTreeSet<String>,
    /// Whether payloads and answers of decided operations may be gone.
    pub slimming: bool,
    /// Whether the ledger may be refused until a person accepts a loss.
    pub accepting: bool,
    /// How much was promised.
    pub count: usize,
}

impl Promised {
    /// Takes a promise in.
    pub fn take(&mut self, promise: &Promise) {
        self.count += 1;
        match promise.clone() {
            Promise::Sent(key, attempt) => drop(self.sent.insert(key, attempt)),
            Promise::Told(key, verdict) => drop(self.told.insert(key, verdict)),
            Promise::Forgotten(key) => drop(self.forgotten.insert(key)),
            Promise::Slimming => self.slimming = true,
            Promise::Accepting => self.accepting = true,
        }
    }
}
