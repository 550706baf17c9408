#pragma once

#include <span>

#include "accrue/kernels/moment_view.h"
#include "accrue/kernels/operation/basics.h"

namespace accrue {

struct AdamWSettings {
    float rate = 0;
    float beta1 = 0;
    float beta2 = 0;
    float epsilon = 0;
    float decay = 0;        // decoupled: weight -= rate * decay * weight
    float correction1 = 1;  // 1 / (1 - beta1^t)
    float correction2 = 1;  // 1 / (1 - beta2^t)
};

struct SgdSettings {
    float rate = 0;
    float momentum = 0;
    float decay = 0;  // coupled: gradient += decay * weight
    enum class Kind { plain, nesterov } kind = Kind::plain;
};

namespace op {

// result = the sum of the squared elements of all mean gradients, each over fixed blocks in fixed order, then in the order
// of the gradients, in double.
struct SquaredNorm {
    static constexpr std::string_view kName = "squared_norm";
    std::span<const MeanView> gradients;
    View<double> result;  // [1, 1]

    [[nodiscard]] static Part part() { return Part::optimizer; }
    void check() const;
    void count(WorkByPart& work) const;
};

// g = gradient; m += (1 - beta1)(g - m); v += (1 - beta2)(g^2 - v);
// weight = weight - rate (m c1 / (sqrt(v c2) + epsilon) + decay weight). `copy` [1, n], where not empty, gets the
// rounded weight.
struct UpdateAdamW {
    static constexpr std::string_view kName = "update_adamw";
    MeanView gradient;
    AdamWSettings settings;
    View<float> weights;
    View<float> first_moment;
    View<float> second_moment;
    AnyView copy;

    [[nodiscard]] static Part part() { return Part::optimizer; }
    void check() const;
    void count(WorkByPart& work) const;
};

// g = gradient + decay weight; b = momentum b + g; weight -= rate (nesterov ? g + momentum b : b).
// With momentum 0, `velocity` may be empty.
struct UpdateSgd {
    static constexpr std::string_view kName = "update_sgd";
    MeanView gradient;
    SgdSettings settings;
    View<float> weights;
    View<float> velocity;
    AnyView copy;

    [[nodiscard]] static Part part() { return Part::optimizer; }
    void check() const;
    void count(WorkByPart& work) const;
};

// The same with moments in 8 bits (moment_codes.h): the moments are read from their codes, the new ones update the
// weights as they are, in fp32, and are rounded once, by chance, to new codes and scales. A block belongs to one thread.
struct UpdateAdamW8Bit {
    static constexpr std::string_view kName = "update_adamw_8bit";
    MeanView gradient;
    AdamWSettings settings;
    View<float> weights;
    CodedMoments moments;
    AnyView copy;

    [[nodiscard]] static Part part() { return Part::optimizer; }
    void check() const;
    void count(WorkByPart& work) const;
};

struct UpdateSgd8Bit {
    static constexpr std::string_view kName = "update_sgd_8bit";
    MeanView gradient;
    SgdSettings settings;
    View<float> weights;
    CodedMoments moments;
    AnyView copy;

    [[nodiscard]] static Part part() { return Part::optimizer; }
    void check() const;
    void count(WorkByPart& work) const;
};

}  // namespace op
}  // namespace accrue
