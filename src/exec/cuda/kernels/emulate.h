// The part of CUDA that the kernels use, on a CPU: for tests on machines without a GPU.
//
// A block's threads are run one after another; a barrier or a shuffle hands over to the next thread, so all threads of a block
// that still run must reach each of them. A thread that meets none runs through without a switch. One launch runs at a time.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)
#define __shared__ static

struct dim3 {
    unsigned x, y, z;
};

namespace emulate {

struct Fiber {
    ucontext_t context;
    char* stack;
    unsigned thread;
    bool done;
};

extern dim3 block_index, grid_size, block_size;
extern unsigned current_thread;
void barrier();
extern float shuffled[1024];

using Invoke = void (*)(void**);

// A kernel, and the bytes of each of its parameters.
struct Kernel {
    Invoke invoke;
    std::vector<size_t> sizes;
};

std::map<std::string, Kernel>& kernels();

template <typename... Arguments>
std::vector<size_t> sizes_of(void (*)(Arguments...)) {
    return {sizeof(Arguments)...};
}

struct Register {
    Register(const char* name, Invoke invoke, std::vector<size_t> sizes) { kernels()[name] = {invoke, sizes}; }
};

template <typename... Arguments, size_t... Index>
void call(void (*kernel)(Arguments...), void** arguments, std::index_sequence<Index...>) {
    kernel(*static_cast<typename std::remove_cv<Arguments>::type*>(arguments[Index])...);
}

template <typename... Arguments>
void unpack(void (*kernel)(Arguments...), void** arguments) {
    call(kernel, arguments, std::index_sequence_for<Arguments...>{});
}

struct Thread {
    struct X {
        operator unsigned() const { return current_thread; }
    } x;
    static constexpr unsigned y = 0, z = 0;
};

}  // namespace emulate

#define KERNEL(name, ...)                                                                                     \
    void name(__VA_ARGS__);                                                                                   \
    static emulate::Register register_##name(                                                                 \
        #name, [](void** arguments) { emulate::unpack(name, arguments); }, emulate::sizes_of(name));          \
    void name(__VA_ARGS__)

static emulate::Thread threadIdx;
#define blockIdx emulate::block_index
#define gridDim emulate::grid_size
#define blockDim emulate::block_size

inline void __syncthreads() { emulate::barrier(); }
inline void __syncwarp(unsigned = 0xffffffffu) { emulate::barrier(); }
// Blocks run one after another, so what one wrote is there for the next.
inline void __threadfence() {}

template <typename T>
T emulate_shuffle(T value, unsigned from) {
    static_assert(sizeof(T) == 4, "shuffles are of four bytes");
    std::memcpy(&emulate::shuffled[emulate::current_thread], &value, 4);
    emulate::barrier();
    T result;
    std::memcpy(&result, &emulate::shuffled[from], 4);
    emulate::barrier();
    return result;
}

template <typename T>
T __shfl_sync(unsigned, T value, int lane, int width = 32) {
    unsigned first = emulate::current_thread / width * width;
    return emulate_shuffle(value, first + (unsigned)lane % width);
}

template <typename T>
T __shfl_down_sync(unsigned, T value, unsigned distance, int width = 32) {
    unsigned thread = emulate::current_thread, first = thread / width * width;
    return emulate_shuffle(value, thread + distance < first + width ? thread + distance : thread);
}

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
    unsigned thread = emulate::current_thread, first = thread / width * width;
    return emulate_shuffle(value, first + ((thread - first) ^ (unsigned)mask));
}

inline int atomicOr(int* address, int value) {
    int before = *address;
    *address |= value;
    return before;
}

inline int atomicAdd(int* address, int value) {
    int before = *address;
    *address += value;
    return before;
}

inline int atomicMax(int* address, int value) {
    int before = *address;
    if (value > before) *address = value;
    return before;
}

inline int atomicMin(int* address, int value) {
    int before = *address;
    if (value < before) *address = value;
    return before;
}
