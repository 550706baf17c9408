#pragma once

#include <filesystem>
#include <optional>

namespace accrue {

// One run on disk: where each of its files lies.
struct RunFolder {
    std::filesystem::path root;

    [[nodiscard]] std::filesystem::path settings() const { return root / "run.toml"; }
    [[nodiscard]] std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
    [[nodiscard]] std::filesystem::path report() const { return root / "report.html"; }
    [[nodiscard]] std::filesystem::path checkpoints() const { return root / "checkpoints"; }
    [[nodiscard]] std::filesystem::path model() const { return root / "model"; }
    // The tokenizer's files as they were when the run began, if it has some.
    [[nodiscard]] std::filesystem::path tokenizer() const { return root / "tokenizer"; }
    // The term of whoever has led workers last.
    [[nodiscard]] std::filesystem::path term() const { return root / "run.term"; }
    // Held by the process that works in the folder.
    [[nodiscard]] std::filesystem::path lock() const { return root / "run.lock"; }
    // Is there any, damaged or not?
    [[nodiscard]] bool has_checkpoints() const;
    // The newest that is whole, if there is one; its checksums are not compared (newest_checkpoint.h does).
    [[nodiscard]] std::optional<std::filesystem::path> newest_checkpoint() const;
};

}  // namespace accrue
