#include "accrue/data/samples/corpus.h"

#include <utility>

#include "accrue/base/error.h"
#include "accrue/data/cache/document_tokenizer.h"
#include "accrue/data/documents/chat_format.h"
#include "accrue/data/samples/cached_dataset.h"

namespace accrue {
namespace {

// Changes when DocumentTokenizer does something else with the same document.
constexpr int kTokenizing = 1;

// A conversation as text, so that no cache survives a change of its format.
std::string marks_of_conversation(const std::string& format) {
    Document document;
    for (const ChatRole role : {ChatRole::system, ChatRole::user, ChatRole::assistant}) {
        append_turn(document, chat_format_of(format), role, " text ");
    }
    std::string text = format;
    for (const DocumentPart& part : document.parts) {
        text += part.text;
    }
    return text;
}

std::string text_of(const ReaderOptions& options) {
    // Does not compile when an option is added that is not in here.
    const auto& [chat_format, skip_bad, chat_fault] = options;
    return cat("chat_format ", chat_fault.empty() ? marks_of_conversation(chat_format) : "none", " skip_bad ",
               skip_bad);
}

TokenSource source_of(const CorpusOptions& options, const Tokenizer& tokenizer) {
    return {.files = options.files,
            .open = [&](const std::filesystem::path& file) { return open_documents(file, options.reader); },
            .tokenize = DocumentTokenizer(tokenizer),
            .settings = cat("tokenizing ", kTokenizing, " ", tokenizer.fingerprint(), " ", text_of(options.reader)),
            .vocabulary = tokenizer.vocabulary()};
}

void check(const CorpusOptions& options) {
    if (!(options.validation_fraction >= 0 && options.validation_fraction < 1)) {
        throw Error(cat("data.validation_fraction is ", options.validation_fraction,
                        ", and a number from 0 to below 1 is needed"));
    }
    check_sample_options({.sequence_length = options.sequence_length, .end_token = {}, .reset_attention = false});
}

}  // namespace

Corpus open_corpus(const CorpusOptions& options, const Tokenizer& tokenizer) {
    check(options);
    const auto cache =
        open_token_cache(source_of(options, tokenizer),
                         {.folder = options.cache_folder, .threads = options.threads, .progress = options.progress});
    const SampleOptions samples{.sequence_length = options.sequence_length,
                                .end_token = options.end_token ? options.end_token : tokenizer.end_of_document(),
                                .reset_attention = options.reset_attention};
    const auto dataset_of = [&](DocumentSelection documents) {
        return options.layout == Layout::packed ? packed_dataset(std::move(documents), samples)
                                                : padded_dataset(std::move(documents), samples);
    };
    Corpus corpus{.train = nullptr,
                  .validation = nullptr,
                  .documents = cache->document_count(),
                  .tokens = cache->token_count(),
                  .conversations = cache->header().conversations,
                  .skipped = cache->skipped(),
                  .rebuilt_because = cache->rebuilt_because()};
    if (options.validation_fraction > 0) {
        auto split = DocumentSelection::split(cache, options.validation_fraction);
        corpus.train = dataset_of(std::move(split.train));
        corpus.validation = dataset_of(std::move(split.validation));
    } else {
        corpus.train = dataset_of(DocumentSelection::all_of(cache));
    }
    return corpus;
}

}  // namespace accrue
