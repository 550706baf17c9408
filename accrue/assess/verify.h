#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/assess/mean_of_means.h"
#include "accrue/assess/neighbours.h"
#include "accrue/assess/window_lab.h"

namespace accrue {

// One way of computing the window, and what became of it.
struct VerifyCase {
    enum class Outcome {
        reference,     // the one that all others are compared with
        same,          // the same bits
        differs,       // other bits, against the promise
        not_promised,  // other bits, and these sums promise nothing else
        not_tried,     // the note says why
    };
    std::string name;
    Outcome outcome = Outcome::same;
    std::string sums = {};                      // checksum of the sums; "" if not tried
    std::string state = {};                     // checksum of weights and moments after the update
    std::optional<double> gradient_error = {};  // against the reference, where the sums differ
    std::string note = {};
    double seconds = 0;
};

// One kind of sums: how far it is from exact ones.
struct SumKindCheck {
    SumKind kind = SumKind::exact;
    int64_t element_bytes = 0;
    double gradient_error = 0;  // of the whole window's sum, relative
    bool repeats = true;        // do other cuts give the same bits, in grain order?
    double seconds = 0;
};

// Something that breaks the law, and the cases that show it.
struct Fault {
    std::string what;
    std::vector<std::string> where;
};

// All that was found about one window.
struct VerifyReport {
    std::string model;
    int64_t parameters = 0;
    std::string device;
    DType dtype = DType::bf16;
    SumKind sums = SumKind::exact;
    int64_t step = 0;
    bool from_checkpoint = false;
    int64_t samples = 0;
    int64_t grains = 0;
    int64_t grain_samples = 0;
    int64_t tokens = 0;
    std::optional<double> loss;
    std::optional<double> gradient_norm;
    std::string skip_reason;  // not empty: the window changes no weights, because of this

    std::vector<VerifyCase> cases;
    std::vector<SumKindCheck> kinds;
    std::vector<MeanOfMeans> means;
    NeighbourCheck neighbours;
    std::vector<Fault> faults;
    double seconds = 0;

    [[nodiscard]] bool holds() const { return faults.empty(); }
};

// Told what goes on, for those who wait.
struct VerifyObserver {
    std::function<void(const VerifyReport& so_far)> begins;           // the window is known
    std::function<void(const std::string& what, double done)> works;  // done: from 0 to 1
    std::function<void(const VerifyCase& finished)> finishes;
};

// Computes one window of a run in many ways that must not matter and compares the bits.
[[nodiscard]] VerifyReport verify(const RunInputs& inputs, const WindowRequest& request,
                                  const ProgramUnderTest& program, const VerifyObserver& observer = {});

}  // namespace accrue
