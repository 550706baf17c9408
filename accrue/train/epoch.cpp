#include "accrue/train/epoch.h"

#include "accrue/base/error.h"
#include "accrue/train/engine.h"
#include "accrue/train/initial_weights.h"

namespace accrue {
namespace {

// Of so many samples the tokens are counted in a few milliseconds.
constexpr int64_t kMostSamplesToCount = 100'000;

// An epoch in units of samples or of counted tokens.
struct EpochContents {
    int64_t all = 0;
    int64_t whole_windows = 0;
    int64_t rest = 0;
};

EpochContents in_samples(int64_t window_samples, const Dataset& data) {
    return {.all = data.size(), .whole_windows = data.size() / window_samples, .rest = data.size() % window_samples};
}

// The first epoch's: in another order of samples, windows in tokens end elsewhere.
EpochContents in_tokens(const Settings& settings, const Dataset& data) {
    WindowSize size = window_size_of(settings.window);
    size.last = WindowSize::Last::kept;
    const SampleOrder order = sample_order_of(settings, data.size());
    const Loader loader(data, order);
    EpochContents contents;
    for (DataPosition position; position.epoch == 0;) {
        const Window window = loader.window_from(position, size);
        int64_t tokens = 0;
        for (int64_t place = position.place; place < position.place + window.samples; ++place) {
            tokens += data.weight(order.sample_at(0, place));
        }
        contents.all += tokens;
        (window.is_short ? contents.rest : contents.whole_windows) += window.is_short ? tokens : 1;
        position = window.next();
    }
    return contents;
}

// The tokens of the data, counted only as far as `enough`.
int64_t tokens_up_to(int64_t enough, const Dataset& data) {
    int64_t tokens = 0;
    for (int64_t sample = 0; sample < data.size() && tokens < enough; ++sample) {
        tokens += data.weight(sample);
    }
    return tokens;
}

}  // namespace

void check_epoch(const Settings::Window& settings, const Dataset& data) {
    if (settings.last != WindowSize::Last::dropped) {
        return;
    }
    const bool by_tokens = settings.tokens > 0;
    const int64_t wanted = by_tokens ? settings.tokens : settings.samples;
    const int64_t found = by_tokens ? tokens_up_to(wanted, data) : data.size();
    if (found < wanted) {
        throw Error(cat("window.", by_tokens ? "tokens" : "samples", " is ", wanted, ", but the data has only ", found,
                        by_tokens ? " counted tokens" : " samples",
                        ", and window.last = \"drop\" leaves out a window that is not full: nothing would be trained. ",
                        "Set window.last to \"short\", or window.", by_tokens ? "tokens" : "samples", " to at most ",
                        found, "."));
    }
}

std::string epoch_text(const Settings& settings, const Dataset& data) {
    const bool by_tokens = settings.window.tokens > 0;
    if (by_tokens && data.size() > kMostSamplesToCount) {
        return "";
    }
    const EpochContents epoch = by_tokens ? in_tokens(settings, data) : in_samples(settings.window.samples, data);
    const int64_t size = by_tokens ? settings.window.tokens : settings.window.samples;
    const char* unit = by_tokens ? " counted tokens" : " samples";
    if (epoch.whole_windows == 0) {
        return cat("the data has only ", epoch.all, unit, ": every window is an epoch of ", epoch.all, ", not ", size);
    }
    std::string text =
        cat("the data has ", epoch.all, unit, ": ", by_tokens ? "the first" : "each", " epoch is ", epoch.whole_windows,
            epoch.whole_windows == 1 ? " window of " : " windows of ", by_tokens ? "at least " : "", size);
    if (epoch.rest > 0) {
        text += settings.window.last == WindowSize::Last::dropped
                    ? cat(", and ", epoch.rest, by_tokens ? " tokens" : " samples", " are left out")
                    : cat(" and a last one of ", epoch.rest);
    }
    return text;
}

}  // namespace accrue
