#include "accrue/data/tokenizers/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "accrue/base/error.h"

namespace accrue {
namespace {

// A field of a protocol buffer: numbers are in `number`, texts and nested messages in `bytes`.
struct Field {
    uint64_t id = 0;
    uint64_t number = 0;
    std::string_view bytes;
};
using FieldSink = std::function<void(const Field&)>;

// Goes through the fields of one message. The wire format is described at protobuf.dev/programming-guides/encoding.
class FieldReader {
public:
    FieldReader(std::string_view message, const std::string& name) : rest_(message), name_(name) {}

    void read_all(const FieldSink& sink) {
        while (!rest_.empty()) {
            const uint64_t key = read_varint();
            Field field{.id = key >> 3, .bytes = {}};
            switch (key & 7U) {
                case 0:
                    field.number = read_varint();
                    break;
                case 1:
                    field.number = read_fixed(8);
                    break;
                case 2:
                    field.bytes = take(read_varint());
                    break;
                case 5:
                    field.number = read_fixed(4);
                    break;
                default:
                    fail();
            }
            sink(field);
        }
    }

private:
    [[noreturn]] void fail() const { throw Error(cat(name_, " is no whole SentencePiece model: a field is damaged")); }

    std::string_view take(uint64_t size) {
        if (size > rest_.size()) {
            fail();
        }
        const std::string_view bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return bytes;
    }

    uint64_t read_varint() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = static_cast<unsigned char>(take(1).front());
            value |= static_cast<uint64_t>(byte & 0x7FU) << shift;
            if (byte < 0x80) {
                return value;
            }
        }
        fail();
    }

    uint64_t read_fixed(size_t size) {
        uint64_t value = 0;
        std::memcpy(&value, take(size).data(), size);
        return value;
    }

    std::string_view rest_;
    const std::string& name_;
};

// Field numbers are those of sentencepiece_model.proto.

SentencePieceModel::Piece read_piece(std::string_view message, const std::string& name) {
    SentencePieceModel::Piece piece;
    FieldReader(message, name).read_all([&](const Field& field) {
        if (field.id == 1) {
            piece.text = field.bytes;
        } else if (field.id == 2) {
            std::memcpy(&piece.score, &field.number, sizeof piece.score);
        } else if (field.id == 3) {
            piece.type = static_cast<SentencePieceModel::PieceType>(field.number);
        }
    });
    if (std::isnan(piece.score)) {
        throw Error(cat(name, ": the score of piece \"", piece.text,
                        "\" is no number: the file is damaged. Download it again."));
    }
    return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model, const std::string& name) {
    FieldReader(message, name).read_all([&](const Field& field) {
        if (field.id == 3) {
            model.kind = static_cast<SentencePieceModel::Kind>(field.number);
        } else if (field.id == 24) {
            model.spaces_end_words = field.number != 0;
        } else if (field.id == 35) {
            model.byte_fallback = field.number != 0;
        }
    });
}

void read_normalizer(std::string_view message, SentencePieceModel& model, const std::string& name) {
    FieldReader(message, name).read_all([&](const Field& field) {
        if (field.id == 2) {
            model.replaces_characters = !field.bytes.empty();
        } else if (field.id == 3) {
            model.add_prefix = field.number != 0;
        } else if (field.id == 4) {
            model.remove_extra_spaces = field.number != 0;
        } else if (field.id == 5) {
            model.escape_spaces = field.number != 0;
        }
    });
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view contents, const std::string& name) {
    SentencePieceModel model;
    FieldReader(contents, name).read_all([&](const Field& field) {
        if (field.id == 1) {
            model.pieces.push_back(read_piece(field.bytes, name));
        } else if (field.id == 2) {
            read_trainer(field.bytes, model, name);
        } else if (field.id == 3) {
            read_normalizer(field.bytes, model, name);
        }
    });
    return model;
}

// A message that is given twice is merged, and the last value of a field holds: normalizer_spec.add_dummy_prefix = false.
std::string without_prefix(std::string_view contents) {
    return std::string(contents).append("\x1A\x02\x18\x00", 4);
}

}  // namespace accrue
