#include "accrue/data/tokenizers/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/data/tokenizers/byte_alphabet.h"
#include "accrue/data/tokenizers/pair_map.h"
#include "accrue/data/tokenizers/word_scanner.h"

namespace accrue {
namespace {

constexpr size_t kLongestWord = 256;
constexpr int64_t kFewestOccurrences = 2;
constexpr int64_t kFixedTokens = 257;
constexpr std::string_view kEnd = "<|endoftext|>";

struct Word {
    std::vector<int32_t> symbols;
    int64_t count = 0;
};

// The different words of all texts, in the order in which they first occur.
std::vector<std::pair<std::string_view, int64_t>> count_words(std::span<const std::string> texts) {
    const WordScanner scanner(WordRule::gpt2);
    std::unordered_map<std::string_view, size_t> places;
    std::vector<std::pair<std::string_view, int64_t>> words;
    const auto count = [&](std::string_view word) {
        const auto [found, is_new] = places.try_emplace(word, words.size());
        if (is_new) {
            words.emplace_back(word, 0);
        }
        ++words[found->second].second;
    };
    for (const std::string_view text : texts) {
        for (size_t begin = 0; begin < text.size();) {
            const size_t end = scanner.word_end(text, begin);
            for (; begin < end; begin += std::min(kLongestWord, end - begin)) {
                count(text.substr(begin, std::min(kLongestWord, end - begin)));
            }
        }
    }
    return words;
}

// Learns the tokens one by one. Counts of pairs are always those of the words as they stand.
class Trainer {
public:
    explicit Trainer(std::span<const std::string> texts) {
        add_token(std::string(kEnd));
        add_bytes();
        for (const auto& [text, count] : count_words(texts)) {
            Word word{.symbols = {}, .count = count};
            for (const char letter : text) {
                word.symbols.push_back(by_byte_[static_cast<unsigned char>(letter)]);
            }
            words_.push_back(std::move(word));
        }
        for (size_t index = 0; index < words_.size(); ++index) {
            change_counts(words_[index], 1);
            remember(index, kEveryToken);
        }
        queue_touched();
    }

    void train(int64_t vocabulary_size) {
        while (static_cast<int64_t>(tokens_.size()) < vocabulary_size && !queue_.empty()) {
            const Candidate best = queue_.top();
            queue_.pop();
            const int64_t count = pairs_.find(best.left, best.right)->count;
            if (count != best.count) {
                // It has become rarer since it was queued; a pair that became more frequent was queued anew.
                if (count < best.count && count >= kFewestOccurrences) {
                    queue_.push({count, best.left, best.right});
                }
                continue;
            }
            merge(best.left, best.right);
        }
    }

    // tokenizer.json as Hugging Face tokenizers writes it for GPT-2.
    [[nodiscard]] std::string json() const {
        using Json = nlohmann::ordered_json;
        Json vocabulary = Json::object();
        // Straight into the list of members: looking for each name first would take quadratic time.
        Json::object_t::Container& members = vocabulary.get_ref<Json::object_t&>();
        for (size_t id = 0; id < tokens_.size(); ++id) {
            members.emplace_back(tokens_[id], id);
        }
        const Json byte_level = {
            {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
        const Json end = {{"id", 0},         {"content", kEnd},     {"single_word", false}, {"lstrip", false},
                          {"rstrip", false}, {"normalized", false}, {"special", true}};
        const Json model = {{"type", "BPE"},
                            {"dropout", nullptr},
                            {"unk_token", nullptr},
                            {"continuing_subword_prefix", nullptr},
                            {"end_of_word_suffix", nullptr},
                            {"fuse_unk", false},
                            {"byte_fallback", false},
                            {"ignore_merges", false},
                            {"vocab", std::move(vocabulary)},
                            {"merges", merges_}};
        const Json tokenizer = {{"version", "1.0"},          {"truncation", nullptr}, {"padding", nullptr},
                                {"added_tokens", {end}},     {"normalizer", nullptr}, {"pre_tokenizer", byte_level},
                                {"post_processor", nullptr}, {"decoder", byte_level}, {"model", model}};
        return tokenizer.dump(1) + "\n";
    }

private:
    static constexpr int32_t kEveryToken = -1;

    struct Pair {
        int64_t count = 0;
        // May name a word that has the pair no more, or name it twice.
        std::vector<uint32_t> words;
        bool touched = false;
    };

    // The most frequent first; of those the one with the lowest ids.
    struct Candidate {
        int64_t count;
        int32_t left;
        int32_t right;
        friend bool operator<(const Candidate& a, const Candidate& b) {
            return a.count != b.count ? a.count < b.count : std::pair(a.left, a.right) > std::pair(b.left, b.right);
        }
    };

    void add_bytes() {
        std::vector<std::pair<std::string, size_t>> alphabet;
        for (size_t byte = 0; byte < by_byte_.size(); ++byte) {
            alphabet.emplace_back(spelled(std::string(1, static_cast<char>(byte))), byte);
        }
        std::sort(alphabet.begin(), alphabet.end());
        for (const auto& [spelling, byte] : alphabet) {
            by_byte_[byte] = add_token(spelling);
        }
    }

    // The id of a token, which is new or was made of other parts before.
    int32_t add_token(const std::string& spelling) {
        const auto [found, is_new] = ids_.try_emplace(spelling, static_cast<int32_t>(tokens_.size()));
        if (is_new) {
            tokens_.push_back(spelling);
        }
        return found->second;
    }

    Pair& pair(int32_t left, int32_t right) {
        Pair* found = pairs_.find(left, right);
        if (found == nullptr) {
            pairs_.set(left, right, {});
            found = pairs_.find(left, right);
        }
        return *found;
    }

    void change_counts(const Word& word, int64_t sign) {
        for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
            pair(word.symbols[i], word.symbols[i + 1]).count += sign * word.count;
        }
    }

    // Notes the word with its pairs that have a token in them, and that these pairs may have become more frequent.
    void remember(size_t index, int32_t token) {
        const std::vector<int32_t>& symbols = words_[index].symbols;
        for (size_t i = 0; i + 1 < symbols.size(); ++i) {
            if (token != kEveryToken && symbols[i] != token && symbols[i + 1] != token) {
                continue;
            }
            Pair& found = pair(symbols[i], symbols[i + 1]);
            if (found.words.empty() || found.words.back() != index) {
                found.words.push_back(static_cast<uint32_t>(index));
            }
            if (!found.touched) {
                found.touched = true;
                touched_.emplace_back(symbols[i], symbols[i + 1]);
            }
        }
    }

    void queue_touched() {
        for (const auto& [left, right] : touched_) {
            Pair& found = *pairs_.find(left, right);
            found.touched = false;
            if (found.count >= kFewestOccurrences) {
                queue_.push({found.count, left, right});
            }
        }
        touched_.clear();
    }

    void merge(int32_t left, int32_t right) {
        const std::string& first = tokens_[static_cast<size_t>(left)];
        const std::string& second = tokens_[static_cast<size_t>(right)];
        merges_.push_back(first + ' ' + second);
        const int32_t result = add_token(first + second);
        std::vector<uint32_t> words = std::move(pair(left, right).words);
        std::sort(words.begin(), words.end());
        words.erase(std::unique(words.begin(), words.end()), words.end());
        for (const uint32_t index : words) {
            Word& word = words_[index];
            change_counts(word, -1);
            join(word.symbols, left, right, result);
            change_counts(word, 1);
            remember(index, result);
        }
        queue_touched();
    }

    static void join(std::vector<int32_t>& symbols, int32_t left, int32_t right, int32_t result) {
        size_t written = 0;
        for (size_t i = 0; i < symbols.size(); ++i) {
            const bool fits = symbols[i] == left && i + 1 < symbols.size() && symbols[i + 1] == right;
            symbols[written++] = fits ? result : symbols[i];
            i += fits ? 1 : 0;
        }
        symbols.resize(written);
    }

    std::vector<std::string> tokens_;
    std::unordered_map<std::string, int32_t> ids_;
    std::array<int32_t, 256> by_byte_{};
    std::vector<std::string> merges_;
    std::vector<Word> words_;
    PairMap<Pair> pairs_;
    std::vector<std::pair<int32_t, int32_t>> touched_;
    std::priority_queue<Candidate> queue_;
};

}  // namespace

std::string train_byte_level_bpe(std::span<const std::string> texts, int64_t vocabulary_size) {
    if (vocabulary_size < kFixedTokens) {
        throw Error(cat("a vocabulary of ", vocabulary_size, " tokens was asked, and at least ", kFixedTokens,
                        " are needed: the 256 bytes and ", kEnd));
    }
    if (std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); })) {
        throw Error("there is no text to train a tokenizer on");
    }
    Trainer trainer(texts);
    trainer.train(vocabulary_size);
    return trainer.json();
}

}  // namespace accrue
