//! Reads the lines of a journal in order and tells good ones from damage.

use super::disk::Disk;
use crate::store::format::{Envelope, LINE_MAX, START, envelope};
use memchr::memmem;
use std::io;

/// How much is read at once, in bytes.
const CHUNK: u64 = 1 << 20;

/// How far a journal was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The offset after the last line break.
    pub end: u64,
    /// How many line breaks came before it.
    pub lines: u64,
}

/// A part of a journal, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line whose checksum is right.
    Line {
        /// The offset of its first byte.
        offset: u64,
        /// Its number, from 1.
        line: u64,
        /// Its bytes, without the line break.
        text: &'a [u8],
        /// What it says about itself.
        envelope: Envelope<'a>,
    },
    /// Bytes that are no line.
    Bad(Bad),
}

/// Bytes of a journal that are no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The offset of the first one.
    pub from: u64,
    /// The offset after the last one, a line break not included.
    pub to: u64,
    /// The number of the line, from 1.
    pub line: u64,
}

/// What becomes of a scan after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It goes on.
    On,
    /// It ends before the line that the piece is in.
    Stop,
}

/// Reads the lines from `start` to `len`, the file's length, and returns how far it came.
///
/// Bytes after the last line break belong to no line yet: they lie between the returned position and `len`. A line of
/// nothing but blanks is what recovery leaves, and is passed over. Inside damage the scan finds its feet at the next
/// line that is whole (a zeroed page can be glued to the front of a good line).
///
/// # Errors
/// What reading the file gives.
pub fn scan(
    disk: &dyn Disk,
    start: Position,
    len: u64,
    each: &mut dyn FnMut(Piece<'_>) -> Next,
) -> io::Result<Position> {
    let mut at = start;
    // `buffer` begins at `at.end + skipped`: of a line that is longer than any, only the end can matter.
    let (mut buffer, mut skipped) = (Vec::new(), 0_u64);
    while read_more(disk, &mut buffer, at.end + skipped, len)? {
        let mut used = 0;
        while let Some(length) = memchr::memchr(b'\n', &buffer[used..]) {
            let line = Line { start: at.end, skipped, number: at.lines + 1, text: &buffer[used..used + length] };
            if line.judge(each) == Next::Stop {
                return Ok(at);
            }
            used += length + 1;
            at = Position { end: at.end + skipped + length as u64 + 1, lines: at.lines + 1 };
            skipped = 0;
        }
        let needless = used.max(buffer.len().saturating_sub(LINE_MAX));
        skipped += (needless - used) as u64;
        buffer.drain(..needless);
    }
    Ok(at)
}

/// Reads on after the bytes in the buffer, which begin at `offset`. Returns false where nothing is left.
fn read_more(disk: &dyn Disk, buffer: &mut Vec<u8>, offset: u64, len: u64) -> io::Result<bool> {
    let known = buffer.len();
    let from = offset + known as u64;
    let want = len.saturating_sub(from).min(CHUNK);
    if want == 0 {
        return Ok(false);
    }
    buffer.resize(known + want as usize, 0);
    let read = loop {
        match disk.read_at(&mut buffer[known..], from) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    buffer.truncate(known + read);
    Ok(read > 0)
}

/// One line as it stands in the file.
struct Line<'a> {
    start: u64,
    skipped: u64,
    number: u64,
    text: &'a [u8],
}

impl Line<'_> {
    fn judge(&self, each: &mut dyn FnMut(Piece<'_>) -> Next) -> Next {
        let blanks = self.text.iter().take_while(|byte| **byte == b' ').count();
        let whole = (self.skipped == 0).then(|| envelope(&self.text[blanks..])).flatten();
        let (bad_to, good) = match whole {
            Some(envelope) => (None, Some((blanks, envelope))),
            None if self.skipped == 0 && blanks == self.text.len() => return Next::On,
            None => {
                let good = self.first_whole();
                (Some(good.map_or(self.text.len(), |(at, _)| at)), good)
            }
        };
        if let Some(to) = bad_to {
            let bad = Bad { from: self.start, to: self.offset(to), line: self.number };
            if each(Piece::Bad(bad)) == Next::Stop {
                return Next::Stop;
            }
        }
        match good {
            Some((at, envelope)) => {
                each(Piece::Line { offset: self.offset(at), line: self.number, text: &self.text[at..], envelope })
            }
            None => Next::On,
        }
    }

    /// Returns the first place inside the line from which the rest is a whole line.
    fn first_whole(&self) -> Option<(usize, Envelope<'_>)> {
        let nearest = self.text.len().saturating_sub(LINE_MAX);
        memmem::find_iter(&self.text[nearest..], START)
            .find_map(|at| envelope(&self.text[nearest + at..]).map(|envelope| (nearest + at, envelope)))
    }

    fn offset(&self, at: usize) -> u64 {
        self.start + self.skipped + at as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;

    fn line(n: u64) -> String {
        let body = format!("{{\"t\":\"started\",\"n\":{n},\"k\":\"k\",\"d\":{n}");
        format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes()))
    }

    #[derive(Debug, PartialEq)]
    enum Seen {
        Line(u64, u64, Option<u64>),
        Bad(Bad),
    }

    fn scan_of(bytes: &[u8]) -> (Position, Vec<Seen>) {
        let mut file: File = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("writes");
        let mut seen = Vec::new();
        let end = scan(&file, Position::default(), bytes.len() as u64, &mut |piece| {
            seen.push(match piece {
                Piece::Line { offset, line, envelope, .. } => Seen::Line(offset, line, envelope.n),
                Piece::Bad(bad) => Seen::Bad(bad),
            });
            Next::On
        });
        (end.expect("reads"), seen)
    }

    #[test]
    fn whole_lines_are_given_and_the_rest_is_left() {
        let (one, two) = (line(1), line(2));
        let len = one.len() as u64;
        let (end, seen) = scan_of(format!("{one}\n{two}\n{}", &one[..9]).as_bytes());
        assert_eq!(seen, [Seen::Line(0, 1, Some(1)), Seen::Line(len + 1, 2, Some(2))]);
        assert_eq!(end, Position { end: 2 * (len + 1), lines: 2 });
        assert_eq!(scan_of(b""), (Position::default(), vec![]));
        assert_eq!(scan_of(one.as_bytes()), (Position::default(), vec![]));
    }

    #[test]
    fn blanked_lines_are_passed_over() {
        let (end, seen) = scan_of(format!("     \n   {}\n\n", line(1)).as_bytes());
        assert_eq!(seen, [Seen::Line(9, 2, Some(1))]);
        assert_eq!(end.lines, 3);
    }

    #[test]
    fn damage_ends_where_a_whole_line_begins() {
        let broken = line(1).replace("started", "sXarted");
        let (_, seen) = scan_of(format!("{broken}\n{}\n", line(2)).as_bytes());
        let to = broken.len() as u64;
        assert_eq!(seen, [Seen::Bad(Bad { from: 0, to, line: 1 }), Seen::Line(to + 1, 2, Some(2))]);
        let zeroed = [vec![0; 100], line(2).into_bytes(), b"\n".to_vec()].concat();
        assert_eq!(scan_of(&zeroed).1, [Seen::Bad(Bad { from: 0, to: 100, line: 1 }), Seen::Line(100, 1, Some(2))]);
        let glued = format!("{}{}\n", &line(1)[..20], line(2));
        assert_eq!(
            scan_of(glued.as_bytes()).1,
            [Seen::Bad(Bad { from: 0, to: 20, line: 1 }), Seen::Line(20, 1, Some(2))]
        );
    }

    #[test]
    fn a_line_longer_than_any_costs_no_memory_and_hides_nothing() {
        let long = 3 * CHUNK + 5;
        let bytes = [vec![b'x'; long as usize], line(2).into_bytes(), b"\n".to_vec(), line(3).into_bytes()].concat();
        let (end, seen) = scan_of(&bytes);
        assert_eq!(seen, [Seen::Bad(Bad { from: 0, to: long, line: 1 }), Seen::Line(long, 1, Some(2))]);
        assert_eq!(end.end, long + line(2).len() as u64 + 1);
    }

    #[test]
    fn a_stopped_scan_can_go_on_at_the_same_line() {
        let bytes = format!("{}\nbroken\n", line(1));
        let mut file: File = tempfile::tempfile().expect("a file");
        file.write_all(bytes.as_bytes()).expect("writes");
        let stop = &mut |piece: Piece<'_>| if matches!(piece, Piece::Bad(_)) { Next::Stop } else { Next::On };
        let end = scan(&file, Position::default(), bytes.len() as u64, stop).expect("reads");
        assert_eq!(end, Position { end: line(1).len() as u64 + 1, lines: 1 });
    }
}
