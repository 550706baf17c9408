#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/base/pool.h"
#include "accrue/model/model_spec.h"
#include "accrue/train/settings.h"

namespace accrue {

// Whose bits a run has: what its results depend on besides its definition.
struct Numerics {
    std::string device;           // kind: "cpu", "reference", "cuda"
    std::string instruction_set;  // the one whose bits come out, which may be less than the one in use; of a GPU its
                                  // architecture and libraries; "" = none
    int64_t version = 0;          // of the kernels
    std::string fingerprint;      // of a probe grain

    bool operator==(const Numerics&) const = default;
};

// The numerics of this program on this machine under a run's settings. The fingerprint is the
// checksum of one grain's sums, from fixed random weights and tokens, in the run's widths and number formats but with two
// layers and few words. Takes less memory than the run itself, and gives it back.
[[nodiscard]] Numerics numerics_of(const Settings& settings, const ModelSpec& model, int64_t longest_sample,
                                   Pool& pool);

// The numerics of a run so far: those in use, and where they were changed on purpose.
struct NumericsRecord {
    struct Change {
        int64_t step = 0;  // optimizer steps done before
        Numerics from;
        Numerics to;
    };
    // A worker that was let in with bits of its own (workers.mixed).
    struct Guest {
        int64_t step = 0;  // optimizer steps done before
        std::string worker;
        Numerics numerics;
    };
    Numerics now;
    std::vector<Change> changes;
    std::vector<Guest> guests = {};  // the first one with each numerics: since then weights depend on who computed what
};

// May a run be continued with other bits than it began with?
enum class OtherBits { refuse, accept };

// The record of a run that continues after `step` with the numerics `now`. Where they differ from those of its
// checkpoint (none: an older version did not say), an error tells what to set to get the old bits, unless others are
// accepted: then the change is added to the record.
[[nodiscard]] NumericsRecord continued_numerics(const std::optional<NumericsRecord>& stored, const Numerics& now,
                                                int64_t step, OtherBits other_bits);

// "cpu with avx512-bf16, numerics version 1, probe 0123abcd".
[[nodiscard]] std::string text_of(const Numerics& numerics);

// A line about a worker that has given up the run's law.
[[nodiscard]] std::string text_of(const NumericsRecord::Guest& guest);

// A record as JSON, and back.
[[nodiscard]] std::string to_json(const NumericsRecord& record);
[[nodiscard]] NumericsRecord numerics_record_of(const std::string& json);

}  // namespace accrue
