#include "accrue/assess/verify.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "accrue/assess/diagnosis.h"
#include "accrue/assess/other_ways.h"
#include "accrue/base/clock.h"
#include "accrue/train/settings_words.h"

namespace accrue {
namespace {

using Outcome = VerifyCase::Outcome;

// Every kind of sums there is, from the best; each is compared with exact ones.
constexpr SumKind kKinds[] = {SumKind::exact, SumKind::fp32, SumKind::bf16_kahan, SumKind::bf16_stochastic,
                              SumKind::bf16};

std::vector<int64_t> all_grains(const WindowLab& lab) {
    std::vector<int64_t> grains(static_cast<size_t>(lab.grains()));
    std::iota(grains.begin(), grains.end(), 0);
    return grains;
}

class Verifier {
public:
    Verifier(const RunInputs& inputs, const WindowRequest& request, const ProgramUnderTest& program,
             const VerifyObserver& observer)
        : inputs_(inputs),
          observer_(observer),
          lab_(inputs, request, program),
          planned_(other_ways(lab_, inputs.settings, inputs.model->blocks())) {
        describe(request);
    }

    VerifyReport run();

private:
    void describe(const WindowRequest& request);
    void work(const std::string& what);
    void compute_whole();
    void compute(const OtherWay& planned);
    [[nodiscard]] GradientDifference difference_from_whole();
    void check_kinds();
    [[nodiscard]] SumKindCheck check_kind(SumKind kind, GradientSum& exact);
    void check_means();
    void check_samples();
    void note_fault(const Diagnosis& diagnosis, const std::string& where);

    [[nodiscard]] bool is_exact() const { return inputs_.settings.compute.sums == SumKind::exact; }

    const RunInputs& inputs_;
    const VerifyObserver& observer_;
    WindowLab lab_;
    std::vector<OtherWay> planned_;
    Computed whole_;
    VerifyReport report_;
    int64_t done_ = 0;
};

void Verifier::describe(const WindowRequest& request) {
    const Settings& settings = inputs_.settings;
    report_.model = name_of(settings.model);
    report_.parameters = lab_.engine().model->parameters().elements();
    report_.device = lab_.device();
    report_.dtype = settings.compute.dtype;
    report_.sums = settings.compute.sums;
    report_.step = lab_.step();
    report_.from_checkpoint = request.checkpoint.has_value();
    report_.samples = lab_.window().samples;
    report_.grains = lab_.grains();
    report_.grain_samples = lab_.window().grain_samples;
    report_.tokens = std::accumulate(lab_.grain_tokens().begin(), lab_.grain_tokens().end(), int64_t{0});
}

void Verifier::work(const std::string& what) {
    constexpr int64_t kOthers = 4;  // the whole window, kinds of sums, means, samples
    if (observer_.works) {
        observer_.works(what, static_cast<double>(done_) / static_cast<double>(std::ssize(planned_) + kOthers));
    }
    ++done_;
}

void Verifier::note_fault(const Diagnosis& diagnosis, const std::string& where) {
    const std::string place = diagnosis.detail.empty() ? where : fmt::format("{}: {}", where, diagnosis.detail);
    const auto known = std::find_if(report_.faults.begin(), report_.faults.end(),
                                    [&](const Fault& fault) { return fault.what == diagnosis.what; });
    if (known == report_.faults.end()) {
        report_.faults.push_back({.what = diagnosis.what, .where = {place}});
    } else {
        known->where.push_back(place);
    }
}

void Verifier::compute_whole() {
    const std::string name = whole_name(lab_);
    work(name);
    whole_ = lab_.by_step({.micro_batch_grains = lab_.most_at_once()});
    report_.loss = whole_.step.loss;
    report_.gradient_norm = whole_.step.grad_norm;
    report_.skip_reason = whole_.step.skip_reason;
    report_.cases.push_back({.name = name,
                             .outcome = Outcome::reference,
                             .sums = whole_.sums,
                             .state = whole_.state,
                             .seconds = whole_.seconds});
    if (const auto fault = diagnose_alone(lab_, whole_)) {
        note_fault(*fault, name);
        report_.cases.back().outcome = Outcome::differs;
    }
}

// Called while the engine's sums are those of the case: they are held aside while the whole window is computed again.
GradientDifference Verifier::difference_from_whole() {
    const SumCopy got(lab_.engine().sum, lab_.engine().kernels);
    (void)lab_.by_step({.micro_batch_grains = lab_.most_at_once()});
    return difference_of(got.values(lab_.engine().kernels), SumValues(lab_.engine().sum, lab_.engine().kernels));
}

void Verifier::compute(const OtherWay& planned) {
    work(planned.name);
    VerifyCase result{.name = planned.name};
    if (!planned.compute) {
        result.outcome = Outcome::not_tried;
        report_.cases.push_back(std::move(result));
        return;
    }
    const Computed got = planned.compute();
    result.sums = got.sums;
    result.state = got.state;
    result.seconds = got.seconds;
    if (got.sums == whole_.sums && got.state == whole_.state) {
        report_.cases.push_back(std::move(result));
        return;
    }
    std::optional<GradientDifference> difference;
    if (got.sums != whole_.sums) {
        difference = difference_from_whole();
        result.gradient_error = difference->relative_error;
    }
    const auto alone = diagnose_alone(lab_, got);
    const bool promised = is_exact() || planned.promise == OtherWay::Promise::all_sums || alone;
    result.outcome = promised ? Outcome::differs : Outcome::not_promised;
    // Where the whole window itself is wrong, a difference from it proves nothing about this way.
    if (promised && (alone || report_.cases.front().outcome == Outcome::reference)) {
        const Diagnosis diagnosis = alone ? *alone : diagnose(lab_, got, whole_, difference);
        note_fault(diagnosis, planned.name);
        result.note = diagnosis.what;
    }
    report_.cases.push_back(std::move(result));
}

SumKindCheck Verifier::check_kind(SumKind kind, GradientSum& exact) {
    const auto start = Clock::now();
    SumKindCheck check{.kind = kind, .element_bytes = bytes_of(kind)};
    GradientSum sum = lab_.make_sum(kind);
    std::string expected;
    for (const int64_t at_once : {lab_.most_at_once(), int64_t{1}}) {
        sum.open(lab_.grains(), lab_.units(), lab_.engine().rounding_seed(), lab_.engine().state.loss_scale.value);
        lab_.add(lab_.window(), all_grains(lab_), at_once, sum);
        const std::string sums = checksum_of(sum);
        check.repeats = expected.empty() || sums == expected;
        expected = sums;
    }
    check.gradient_error =
        difference_of(SumValues(sum, lab_.engine().kernels), SumValues(exact, lab_.engine().kernels)).relative_error;
    check.seconds = seconds_since(start);
    return check;
}

void Verifier::check_kinds() {
    work("every kind of sums");
    lab_.begin({.micro_batch_grains = lab_.most_at_once()});
    std::optional<GradientSum> own;
    if (!is_exact()) {
        own.emplace(lab_.make_sum(SumKind::exact));
    }
    GradientSum& exact = own ? *own : lab_.engine().sum;
    exact.open(lab_.grains(), lab_.units(), 0, lab_.engine().state.loss_scale.value);
    lab_.add(lab_.window(), all_grains(lab_), lab_.most_at_once(), exact);
    for (const SumKind kind : kKinds) {
        const bool is_known = is_exact() && kind == SumKind::exact;  // from the cases
        report_.kinds.push_back(
            is_known ? SumKindCheck{.kind = kind, .element_bytes = bytes_of(kind), .repeats = report_.holds()}
                     : check_kind(kind, exact));
        if (!is_known && !report_.kinds.back().repeats) {
            note_fault(
                {.what = fmt::format("{} sums, added in grain order, depend on the cut", word_of(kind)), .detail = ""},
                "one grain at a time");
        }
    }
}

void Verifier::check_means() {
    work("the mean of means");
    if (!report_.gradient_norm) {
        return;  // the window is skipped
    }
    std::set<int64_t> cuts = {1};
    for (const int64_t parts : {2, 3, 4}) {
        cuts.insert((report_.samples + parts - 1) / parts);
    }
    cuts.erase(report_.samples);
    report_.means = means_of_means(lab_, {cuts.begin(), cuts.end()}, whole_);
}

void Verifier::check_samples() {
    work("each sample alone and beside others");
    report_.neighbours = check_neighbours(lab_);
    const auto& change = report_.neighbours.first;
    if (!change) {
        return;
    }
    const std::string name = fmt::format("sample {}", change->sample);
    const std::string detail =
        change->tensor
            ? fmt::format("its gradient of {}", lab_.engine().model->parameters()[*change->tensor].name)
            : fmt::format("loss {:.9g} alone, {:.9g} beside others", change->loss_alone, change->loss_beside_others);
    note_fault(
        {.what = fmt::format("{} of {} samples change with their neighbours: something is computed over the batch",
                             report_.neighbours.changed, report_.neighbours.samples),
         .detail = detail},
        name);
}

VerifyReport Verifier::run() {
    const auto start = Clock::now();
    if (observer_.begins) {
        observer_.begins(report_);
    }
    const auto tell = [&] {
        if (observer_.finishes) {
            observer_.finishes(report_.cases.back());
        }
    };
    compute_whole();
    tell();
    for (const OtherWay& planned : planned_) {
        compute(planned);
        tell();
    }
    check_kinds();
    check_means();
    check_samples();
    report_.seconds = seconds_since(start);
    return report_;
}

}  // namespace

VerifyReport verify(const RunInputs& inputs, const WindowRequest& request, const ProgramUnderTest& program,
                    const VerifyObserver& observer) {
    return Verifier(inputs, request, program, observer).run();
}

}  // namespace accrue
