// Checks the fused attention against f64 on small inputs, times it on those of well-known models, and compares two runs bit by bit.
//
// On a device, in this folder's parent:
//   for f in attention fused_forward fused_backward; do nvcc -std=c++17 -O3 -fmad=false -gencode=arch=compute_90a,code=sm_90a -cubin $f.cu -o $f.cubin; done
//   nvcc -std=c++17 -O2 check/attention.cu -o check_attention -lcuda && ./check_attention attention.cubin fused_forward.cubin fused_backward.cubin
// Emulated, without timings:
//   g++ -std=c++17 -O1 -mfma -x c++ check/attention.cu emulate.cpp attention.cu fused_forward.cu fused_backward.cu -o check_attention
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#ifdef __CUDACC__
#include <cuda.h>
#include <cuda_runtime.h>
#endif

struct Memory {
    void* data;
    int format, pitch;
};

struct Arguments {
    std::vector<std::vector<char>> slots;
    std::vector<size_t> sizes;
    template <class T>
    Arguments& add(T value) {
        std::vector<char> slot(16);
        std::memcpy(slot.data(), &value, sizeof value);
        slots.push_back(slot);
        sizes.push_back(sizeof value);
        return *this;
    }
};

enum { F32 = 0, F16 = 1, BF16 = 2 };

#ifdef __CUDACC__
std::vector<CUmodule> modules;
void* reserve(size_t bytes) {
    void* p = nullptr;
    if (cudaMalloc(&p, bytes + 16) != cudaSuccess) std::printf("no memory\n"), std::exit(1);
    cudaMemset(p, 0xa7, bytes);
    return p;
}
void release(void* p) { cudaFree(p); }
void up(void* to, const void* from, size_t bytes) { cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice); }
void down(void* to, const void* from, size_t bytes) { cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost); }
void launch(const std::string& name, unsigned x, unsigned y, unsigned block, Arguments& arguments) {
    std::vector<void*> pointers;
    for (auto& slot : arguments.slots) pointers.push_back(slot.data());
    for (CUmodule module : modules) {
        CUfunction function;
        if (cuModuleGetFunction(&function, module, name.c_str()) != CUDA_SUCCESS) continue;
        CUresult status = cuLaunchKernel(function, x, y, 1, block, 1, 1, 0, nullptr, pointers.data(), nullptr);
        if (status != CUDA_SUCCESS) std::printf("FAILED %s: launch gives %d\n", name.c_str(), (int)status), std::exit(1);
        return;
    }
    std::printf("FAILED there is no %s\n", name.c_str());
    std::exit(1);
}
#else
extern "C" int amp_emulated_launch(const char* name, const unsigned* grid, unsigned block, void** arguments, const size_t* sizes, size_t count);
void* reserve(size_t bytes) {
    void* p = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    std::memset(p, 0xa7, bytes);
    return p;
}
void release(void* p) { std::free(p); }
void up(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void down(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void launch(const std::string& name, unsigned x, unsigned y, unsigned block, Arguments& arguments) {
    std::vector<void*> pointers;
    for (auto& slot : arguments.slots) pointers.push_back(slot.data());
    unsigned grid[3] = {x, y, 1};
    int status = amp_emulated_launch(name.c_str(), grid, block, pointers.data(), arguments.sizes.data(), arguments.sizes.size());
    if (status) std::printf("FAILED there is no %s with these parameters\n", name.c_str()), std::exit(1);
}
#endif

static float of_bits(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}
static uint32_t to_bits(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}
// Numbers of the tests are halves and bf16 alike: few places, middling exponents.
static uint16_t narrow(float x, int format) {
    uint32_t bits = to_bits(x);
    if (format == BF16) return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    if (x == 0.0f) return 0;
    int exponent = (int)((bits >> 23) & 255) - 112;
    return (uint16_t)((bits >> 31 << 15) | (exponent << 10) | ((bits >> 13) & 0x3ff));
}
static float widen(uint16_t half, int format) {
    if (format == BF16) return of_bits((uint32_t)half << 16);
    int exponent = half >> 10 & 31, mantissa = half & 0x3ff;
    float magnitude = exponent == 0 ? std::ldexp((float)mantissa, -24) : std::ldexp((float)(mantissa | 0x400), exponent - 25);
    return half >> 15 ? -magnitude : magnitude;
}

static uint32_t state = 1;
static float draw() {
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (float)(int)(state >> 26) - 31.5f;
    }
    return of_bits(to_bits(sum / 32.0f) & 0xfffe0000u);
}

// Keys that are attended to: all and no mask, all, most here and there, the first ones.
enum Mask { NONE, ALL, SOME, PADDED };

struct Problem {
    const char* name;
    int64_t n, h, t, s, d;
    int format;
    bool causal;
    Mask mask;
    bool bias;
    float p;
    // Queries, keys and values, and their gradients, are parts of one value each; such problems are only timed.
    bool packed = false;
    double flops() const { return 4.0 * n * h * t * s * d * (causal ? 0.5 : 1.0); }
};

static const float EPSILON[] = {0, 4.8828125e-4f, 3.90625e-3f};

struct Run {
    Problem c;
    float scale, factor;
    std::vector<uint16_t> q, k, v, dy;
    std::vector<float> mask, bias;
    Memory mq, mk, mv, mdy, mmask, mbias, my, mlse, mdq, mdk, mdv;
    void *kept, *terms, *position, *slopes, *attended;
    std::vector<void*> taken;

    Memory place(const void* data, size_t bytes, int format) {
        void* p = reserve(bytes);
        taken.push_back(p);
        if (data) up(p, data, bytes);
        return {p, format, (int)(c.h * c.d)};
    }
    explicit Run(Problem problem) : c(problem) {
        scale = 1.0f / std::sqrt((float)c.d);
        factor = 1.0f / (1.0f - c.p);
        size_t rows = c.n * c.h * c.d;
        auto fill = [&](std::vector<uint16_t>& x, size_t count) {
            x.resize(count);
            for (auto& value : x) value = narrow(draw(), c.format);
        };
        fill(q, rows * c.t), fill(k, rows * c.s), fill(v, rows * c.s), fill(dy, rows * c.t);
        mq = place(q.data(), q.size() * 2, c.format), mk = place(k.data(), k.size() * 2, c.format);
        mv = place(v.data(), v.size() * 2, c.format), mdy = place(dy.data(), dy.size() * 2, c.format);
        my = place(nullptr, q.size() * 2, c.format), mdq = place(nullptr, q.size() * 2, c.format);
        mdk = place(nullptr, k.size() * 2, c.format), mdv = place(nullptr, k.size() * 2, c.format);
        if (c.packed) pack();
        mlse = place(nullptr, c.n * c.h * c.t * 4, F32);
        mmask = mbias = {nullptr, F32, 0};
        if (c.mask) {
            for (int64_t n = 0; n < c.n; n++)
                for (int64_t s = 0; s < c.s; s++) {
                    bool hidden = c.mask == SOME ? s % 5 == 3 : c.mask == PADDED && s >= c.s - n % 4 * c.s / 4;
                    mask.push_back(hidden ? 0.0f : 1.0f);
                }
            mmask = place(mask.data(), mask.size() * 4, F32);
        }
        if (c.bias) {
            for (int64_t i = 0; i < c.h * c.t * c.s; i++) bias.push_back(draw());
            mbias = place(bias.data(), bias.size() * 4, F32);
        }
        attended = c.mask ? place(nullptr, c.n * ((c.s + 63) / 64) * 8, F32).data : nullptr;
        uint64_t step = 3;
        position = place(&step, 8, F32).data;
        kept = c.p > 0 ? place(nullptr, c.n * c.h * c.t * ((c.s + 31) / 32) * 4, F32).data : nullptr;
        terms = place(nullptr, c.n * c.h * ((c.t + 63) / 64 * 64) * 8, F32).data;
        slopes = c.bias ? place(nullptr, c.n * c.h * c.t * c.s * 4, F32).data : nullptr;
    }
    // Moves operands and results to rows of three times their length.
    void pack() {
        int64_t row = c.h * c.d;
        std::vector<uint16_t> all(3 * q.size());
        for (size_t at = 0; at < all.size(); at++) {
            size_t position = at / (3 * row), column = at % (3 * row);
            all[at] = (column / row == 0 ? q : column / row == 1 ? k : v)[position * row + column % row];
        }
        Memory operands = place(all.data(), all.size() * 2, c.format), results = place(nullptr, all.size() * 2, c.format);
        auto part = [&](Memory of, int number) { return Memory{(uint16_t*)of.data + number * row, c.format, (int)(3 * row)}; };
        mq = part(operands, 0), mk = part(operands, 1), mv = part(operands, 2);
        mdq = part(results, 0), mdk = part(results, 1), mdv = part(results, 2);
    }
    ~Run() {
        for (void* p : taken) release(p);
    }

    std::string name(const char* kind) const {
        bool general = c.bias || c.p > 0;
        return std::string("attention_fused") + kind + (c.format == F16 ? "_f16_" : "_bf16_") + std::to_string(c.d) + (general ? "_general" : "");
    }
    Arguments& ends(Arguments& a) const {
        a.add(attended).add<int64_t>(0).add(c.h).add(c.t).add(c.s);
        a.add<int64_t>(0).add<int64_t>(c.bias ? c.t * c.s : 0).add<int64_t>(c.bias ? c.s : 0).add<int64_t>(c.bias ? 1 : 0);
        return a.add(scale).add<int>(c.causal).add(kept).add(factor);
    }
    void drops() {
        if (!kept) return;
        int64_t rows = c.n * c.h * c.t;
        Arguments a;
        a.add(kept).add<int64_t>(0).add(rows).add(c.t).add(c.s).add<int>(c.causal).add<uint64_t>(0x123456789abcdefull).add(position).add(c.p);
        launch("attention_kept", (unsigned)((rows * ((c.s + 31) / 32) + 255) / 256), 1, 256, a);
    }
    void masks() {
        if (!attended) return;
        int64_t words = c.n * ((c.s + 63) / 64);
        Arguments a;
        a.add(mmask).add(attended).add(words).add(c.s);
        launch("attention_fused_attended", (unsigned)((words * 16 + 255) / 256), 1, 256, a);
    }
    void forward() {
        drops(), masks();
        Arguments a;
        a.add(mq).add(mk).add(mv).add(mbias).add(my).add(mlse);
        launch(name(""), (unsigned)((c.t + 127) / 128), (unsigned)(c.n * c.h), 256, ends(a));
    }
    void backward() {
        drops();
        masks();
        Arguments a, b;
        a.add(mq).add(mk).add(mv).add(mbias).add(mdy).add(my).add(mlse).add(terms).add(mdq).add(slopes);
        launch(name("_query_gradient"), (unsigned)((c.t + 63) / 64), (unsigned)(c.n * c.h), 128, ends(a));
        b.add(mq).add(mk).add(mv).add(mbias).add(mdy).add(terms).add(mdk).add(mdv);
        launch(name("_key_gradient"), (unsigned)((c.s + 63) / 64), (unsigned)(c.n * c.h), 128, ends(b));
    }

    std::vector<float> halves(Memory m, size_t count) const {
        std::vector<uint16_t> raw(count);
        down(raw.data(), m.data, count * 2);
        std::vector<float> x(count);
        for (size_t i = 0; i < count; i++) x[i] = widen(raw[i], c.format);
        return x;
    }

    // The greatest errors of y, log-sum-exp, dq, dk, dv and slopes, in units of the format's epsilon and the greatest magnitude.
    bool check() {
        forward();
        backward();
        std::vector<float> fy = halves(my, q.size()), fdq = halves(mdq, q.size()), fdk = halves(mdk, k.size()), fdv = halves(mdv, k.size());
        std::vector<float> flse(c.n * c.h * c.t), fz(c.bias ? c.n * c.h * c.t * c.s : 0);
        down(flse.data(), mlse.data, flse.size() * 4);
        if (c.bias) down(fz.data(), slopes, fz.size() * 4);
        size_t words = (c.s + 31) / 32;
        std::vector<uint32_t> bits(kept ? c.n * c.h * c.t * words : 0);
        if (kept) down(bits.data(), kept, bits.size() * 4);
        double share = 0;
        std::vector<double> y(q.size()), dq(q.size()), dk(k.size()), dv(k.size()), lse(flse.size()), z(c.n * c.h * c.t * c.s);
        auto at = [&](int64_t n, int64_t length, int64_t position, int64_t h) { return ((n * length + position) * c.h + h) * c.d; };
        for (int64_t n = 0; n < c.n; n++)
            for (int64_t h = 0; h < c.h; h++)
                for (int64_t t = 0; t < c.t; t++) {
                    std::vector<double> x(c.s, -INFINITY);
                    int64_t row = (n * c.h + h) * c.t + t, qt = at(n, c.t, t, h);
                    double most = -INFINITY, sum = 0, delta = 0;
                    for (int64_t s = 0; s < c.s; s++) {
                        if ((c.causal && s > t) || (c.mask && mask[n * c.s + s] == 0.0f)) continue;
                        double chain = 0;
                        for (int64_t d = 0; d < c.d; d++) chain += (double)widen(q[qt + d], c.format) * widen(k[at(n, c.s, s, h) + d], c.format);
                        x[s] = chain * scale + (c.bias ? bias[(h * c.t + t) * c.s + s] : 0.0f);
                        most = std::fmax(most, x[s]);
                    }
                    for (double value : x) sum += most == -INFINITY ? 0 : std::exp(value - most);
                    lse[row] = most == -INFINITY ? most : most + std::log(sum);
                    auto keeps = [&](int64_t s) { return kept ? bits[row * words + s / 32] >> (s % 32) & 1 : 1u; };
                    for (int64_t s = 0; s < c.s; s++) {
                        double p = most == -INFINITY ? 0 : std::exp(x[s] - lse[row]);
                        share += keeps(s);
                        for (int64_t d = 0; d < c.d; d++) y[qt + d] += (keeps(s) ? p * factor : 0) * widen(v[at(n, c.s, s, h) + d], c.format);
                    }
                    for (int64_t d = 0; d < c.d; d++) delta += (double)widen(dy[qt + d], c.format) * fy[qt + d];
                    for (int64_t s = 0; s < c.s; s++) {
                        double p = most == -INFINITY ? 0 : std::exp(x[s] - lse[row]), g = 0;
                        int64_t ks = at(n, c.s, s, h);
                        for (int64_t d = 0; d < c.d; d++) g += (double)widen(dy[qt + d], c.format) * widen(v[ks + d], c.format);
                        double slope = p * ((keeps(s) ? g * factor : 0) - delta);
                        z[row * c.s + s] = slope;
                        for (int64_t d = 0; d < c.d; d++) {
                            dq[qt + d] += slope * widen(k[ks + d], c.format) * scale;
                            dk[ks + d] += slope * widen(q[qt + d], c.format) * scale;
                            dv[ks + d] += (keeps(s) ? p * factor : 0) * widen(dy[qt + d], c.format);
                        }
                    }
                }
        if (c.causal && c.bias)
            for (int64_t i = 0; i < (int64_t)fz.size(); i++)
                if (i % c.s > i / c.s % c.t) fz[i] = (float)z[i];
        bool good = true;
        auto error = [&](const char* what, const std::vector<float>& found, const std::vector<double>& wanted, double unit) {
            double most = 1e-30, worst = 0;
            for (double x : wanted)
                if (std::isfinite(x)) most = std::fmax(most, std::fabs(x));
            for (size_t i = 0; i < found.size(); i++) {
                double difference = (double)found[i] == wanted[i] ? 0 : std::fabs(found[i] - wanted[i]) / most / unit;
                worst = difference > worst || std::isnan(difference) ? difference : worst;
            }
            good = good && worst < 4.0;
            std::printf(" %s %.2f", what, worst);
        };
        std::printf("%-22s", c.name);
        error("y", fy, y, EPSILON[c.format]);
        error("lse", flse, lse, 1e-5);
        error("dq", fdq, dq, EPSILON[c.format]);
        error("dk", fdk, dk, EPSILON[c.format]);
        error("dv", fdv, dv, EPSILON[c.format]);
        if (c.bias) error("z", fz, z, EPSILON[c.format]);
        if (kept && !c.causal) std::printf(" kept %.3f", share / (double)(c.n * c.h * c.t * c.s));
        // Once more: the same bits.
        std::vector<float> again[4];
        forward();
        backward();
        again[0] = halves(my, q.size()), again[1] = halves(mdq, q.size()), again[2] = halves(mdk, k.size()), again[3] = halves(mdv, k.size());
        const std::vector<float>* before[4] = {&fy, &fdq, &fdk, &fdv};
        for (int i = 0; i < 4; i++) {
            bool same = std::memcmp(again[i].data(), before[i]->data(), again[i].size() * 4) == 0;
            if (!same) std::printf(" RUNS DIFFER (%d)", i);
            good = good && same;
        }
        std::printf(good ? " ok\n" : " FAILED\n");
        return good;
    }

#ifdef __CUDACC__
    void time() {
        auto measure = [&](auto work) {
            cudaEvent_t begin, end;
            cudaEventCreate(&begin), cudaEventCreate(&end);
            for (int i = 0; i < 3; i++) work();
            cudaEventRecord(begin);
            for (int i = 0; i < 20; i++) work();
            cudaEventRecord(end);
            cudaEventSynchronize(end);
            float milliseconds = 0;
            cudaEventElapsedTime(&milliseconds, begin, end);
            return milliseconds / 20;
        };
        double there = measure([&] { forward(); }), back = measure([&] { backward(); });
        std::printf("%-22s forward %.3f ms %.0f TFLOP/s, backward %.3f ms %.0f TFLOP/s (of 2.5 forwards)\n", c.name, there,
                    c.flops() / there * 1e-9, back, 2.5 * c.flops() / back * 1e-9);
    }
#endif
};

int main(int count, char** names) {
#ifdef __CUDACC__
    cudaFree(nullptr);
    for (int i = 1; i < count; i++) {
        CUmodule module;
        if (cuModuleLoad(&module, names[i]) != CUDA_SUCCESS) std::printf("FAILED to load %s\n", names[i]), std::exit(1);
        modules.push_back(module);
    }
#else
    (void)count, (void)names;
#endif
    const Problem small[] = {
        {"f16 64", 1, 2, 130, 70, 64, F16, false, NONE, false, 0},
        {"bf16 64 causal", 2, 1, 150, 150, 64, BF16, true, NONE, false, 0},
        {"f16 32 causal", 1, 2, 197, 197, 32, F16, true, NONE, false, 0},
        {"bf16 128", 1, 1, 65, 200, 128, BF16, false, NONE, false, 0},
        {"f16 128 causal", 1, 1, 140, 140, 128, F16, true, NONE, false, 0},
        {"bf16 64 mask", 2, 2, 50, 51, 64, BF16, false, SOME, false, 0},
        {"bf16 64 padded", 4, 1, 70, 260, 64, BF16, false, PADDED, false, 0},
        {"f16 128 padded", 4, 1, 70, 140, 128, F16, false, PADDED, false, 0},
        {"f16 64 padded causal", 4, 1, 150, 150, 64, F16, true, PADDED, false, 0},
        {"bf16 32 padded bias", 4, 1, 50, 200, 32, BF16, false, PADDED, true, 0},
        {"f16 64 bias causal", 1, 2, 70, 70, 64, F16, true, NONE, true, 0},
        {"f16 64 dropout", 1, 2, 100, 130, 64, F16, false, SOME, true, 0.25f},
        {"bf16 128 all causal", 1, 1, 100, 100, 128, BF16, true, SOME, true, 0.1f},
        {"f16 32 dropout causal", 1, 1, 70, 131, 32, F16, true, NONE, false, 0.5f},
        {"f16 64 some", 2, 2, 40, 70, 64, F16, false, SOME, false, 0},
        {"f16 64 bias", 2, 2, 40, 70, 64, F16, false, NONE, true, 0},
        {"f16 64 bias some", 2, 2, 40, 70, 64, F16, false, SOME, true, 0},
        {"f16 64 drop", 2, 2, 40, 70, 64, F16, false, NONE, false, 0.1f},
        {"f16 64 drop some", 2, 2, 40, 70, 64, F16, false, SOME, false, 0.1f},
        {"f16 64 both", 2, 2, 40, 70, 64, F16, false, SOME, true, 0.1f},
        {"f16 64 both, a tile", 2, 2, 40, 64, 64, F16, false, SOME, true, 0.1f},
        {"f16 64 both, tiles", 2, 2, 40, 128, 64, F16, false, SOME, true, 0.1f},
        {"f16 64 both, block", 2, 2, 128, 70, 64, F16, false, SOME, true, 0.1f},
        {"f16 32 both", 2, 2, 40, 70, 32, F16, false, SOME, true, 0.1f},
        {"f16 128 both", 2, 2, 40, 70, 128, F16, false, SOME, true, 0.1f},
        {"f16 64 one", 1, 1, 1, 1, 64, F16, true, NONE, false, 0},
    };
    bool good = true;
    for (const Problem& problem : small) good = Run(problem).check() && good;
#ifdef __CUDACC__
    const Problem large[] = {
        {"GPT-2 causal", 16, 12, 1024, 1024, 64, BF16, true, NONE, false, 0},
        {"GPT-2 packed", 16, 12, 1024, 1024, 64, BF16, true, NONE, false, 0, true},
        {"GPT-2 dropout", 16, 12, 1024, 1024, 64, BF16, true, NONE, false, 0.1f},
        {"BERT 512 all", 32, 12, 512, 512, 64, BF16, false, ALL, false, 0},
        {"BERT 512 padded", 32, 12, 512, 512, 64, BF16, false, PADDED, false, 0},
        {"BERT 512 some", 32, 12, 512, 512, 64, BF16, false, SOME, false, 0},
        {"T5 512 bias", 32, 12, 512, 512, 64, BF16, false, NONE, true, 0},
        {"ViT 197", 128, 12, 197, 197, 64, BF16, false, NONE, false, 0},
        {"ViT 197 packed", 128, 12, 197, 197, 64, BF16, false, NONE, false, 0, true},
        {"64 x 4096", 4, 12, 4096, 4096, 64, BF16, false, NONE, false, 0},
        {"64 x 4096 f16 causal", 4, 12, 4096, 4096, 64, F16, true, NONE, false, 0},
        {"128 x 2048", 8, 12, 2048, 2048, 128, BF16, false, NONE, false, 0},
        {"128 x 2048 causal", 8, 12, 2048, 2048, 128, BF16, true, NONE, false, 0},
    };
    for (const Problem& problem : large) Run(problem).time();
#endif
    std::printf(good ? "all good\n" : "FAILED\n");
    return good ? 0 : 1;
}
