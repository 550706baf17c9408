#include "tests/fuzz/parsers.h"

#include "accrue/base/error.h"
#include "accrue/train/team/packet.h"

namespace accrue::fuzz {
namespace {

using Json = nlohmann::ordered_json;

// What it reads, if it is that; and what is written of it can be read again.
template <class Read>
void if_it_is_one(const Read& read) {
    try {
        read();
    } catch (const Error&) {
    }
}

}  // namespace

// What a worker and the run's leader say to each other, as each of the things that it may be.
void run_packet(std::string_view bytes) {
    const Packet packet = decoded(std::string(bytes));
    const Json& words = packet.words;
    (void)decoded(encoded(packet));
    if_it_is_one([&] { (void)window_of(json_of(window_of(words))).places_of(0); });
    if_it_is_one([&] { (void)position_of(words); });
    if_it_is_one([&] { (void)report_of(json_of(report_of(words))); });
    if_it_is_one([&] { (void)number_of(packet, "tokens"); });
    if_it_is_one([&] {
        const BatchQuestion question = batch_question_of(packet);
        for (const int64_t grain : question.grains) {
            (void)question.window.places_of(grain);
        }
    });
    if_it_is_one([&] {
        const TokenBatch batch = batch_of(packet);
        (void)batch_of(packet_of(batch));
        (void)counted_grains(batch);
    });
}

}  // namespace accrue::fuzz
