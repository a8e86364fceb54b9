//! What every ledger must do, and what only a file must.

mod compact;
mod crowd;
mod damage;
mod facts;
mod file;
mod forget;
mod full;
mod group;
mod index;
mod killed;
mod known;
mod long;
mod person;
mod suite;
mod sweep;
mod verify;

macro_rules! conformance {
    ($house:expr => $module:ident: $($name:ident,)*) => {
        $(#[test] fn $name() { crate::$module::$name(&$house); })*
    };
    ($house:expr) => {
        conformance! { $house => suite:
            a_new_key_is_ours_with_its_opened_line,
            a_second_claim_meets_the_live_owner,
            a_dropped_claim_without_started_is_accounted,
            a_dropped_claim_with_an_open_attempt_is_in_doubt,
            a_dropped_claim_with_a_finished_attempt_is_accounted,
            a_reboot_leaves_everything_in_doubt,
            an_unsettled_run_is_continued_with_its_facts,
            a_settled_key_is_final,
            a_rejected_key_is_final,
            another_payload_is_refused,
            the_same_key_of_another_partner_is_another_operation,
            a_keyless_send_continues_the_newest_with_its_payload,
            a_keyless_send_leaves_alone_what_never_started,
            a_keyless_send_leaves_alone_what_is_decided,
            a_keyless_send_meets_a_live_owner,
            an_accepted_duplicate_opens_another,
            a_replay_begins_nothing,
            a_replay_continues_what_is_unsettled,
            a_replay_tries_a_rejection_again_only_where_told,
            claims_are_numbered_without_gaps,
            the_history_is_what_was_appended,
            bodies_come_back_byte_for_byte,
            only_the_newest_claim_may_start,
            a_late_confirmation_of_an_older_claim_is_final,
        }
        conformance! { $house => person:
            a_word_is_recorded_with_what_was_there_before,
            a_word_waits_for_a_live_owner,
            a_word_against_proof_is_refused,
            a_word_can_be_taken_back,
            a_word_of_another_partner_is_unknown,
        }
    };
}

mod memory {
    use crate::suite::House;
    use abide::engine::facts::History;
    use abide::engine::operation::{IdempotencyKey, PartnerName};
    use abide::store::memory::Memory;

    struct InMemory(Memory);

    impl House for InMemory {
        type Ledger = Memory;

        fn process(&self) -> Memory {
            self.0.clone()
        }

        fn read(&self, partner: &PartnerName, key: &IdempotencyKey) -> Option<History> {
            self.0.history(partner, key)
        }
    }

    conformance! { InMemory(Memory::default()) }
}

mod jsonl {
    use crate::file::OnDisk;

    conformance! { OnDisk::new() }
}

mod informed {
    use crate::file::OnDisk;
    use crate::known::ReadBefore;

    conformance! { &ReadBefore(OnDisk::new()) }
}
