//! Values to texts: for people and for machines. It sees `engine` only and reads nothing by itself.

pub mod advice;
pub mod calibrate;
pub mod events;
pub mod export;
pub mod human;
pub mod json;
pub mod junit;
pub mod known;
pub mod paint;
pub mod probe;
pub mod progress;
pub mod record;
pub mod replay;
pub mod request;
pub mod rounds;
pub mod table;
pub mod time;
