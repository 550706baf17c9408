#include <cstring>
#include <vector>

#include "tests/fuzz/parsers.h"

#include "accrue/accumulate/ledger.h"
#include "accrue/accumulate/window_record.h"
#include "accrue/base/hash.h"

namespace accrue::fuzz {

// With the right checksum behind it, so that more than the checksum is tried.
void run_ledger(std::string_view bytes) {
    const auto given = std::as_bytes(std::span(bytes));
    std::vector<std::byte> whole(given.begin(), given.end());
    const uint64_t checksum = hash64_of(whole, 0);
    whole.resize(whole.size() + sizeof(checksum));
    std::memcpy(whole.data() + bytes.size(), &checksum, sizeof(checksum));
    const GrainLedger ledger = GrainLedger::from_bytes(whole, 3, 2);
    (void)ledger.missing();
    (void)ledger.largest();
    (void)GrainLedger::from_bytes(ledger.to_bytes(), 3, 2);
}

void run_window_record(std::string_view bytes) {
    const WindowRecord record = window_record_of(std::string(bytes));
    (void)record.window.places_of(record.window.grains() - 1);
    (void)window_record_of(to_json(record));
}

}  // namespace accrue::fuzz
