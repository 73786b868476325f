// The emulated device: every kernel in one library, launched by name. Built and loaded by the tests.
#include "emulate.h"

namespace emulate {
dim3 block_index{0, 0, 0}, grid_size{1, 1, 1}, block_size{1, 1, 1};
unsigned current_thread = 0;
float shuffled[1024];

std::map<std::string, Kernel>& kernels() {
    static std::map<std::string, Kernel> all;
    return all;
}

namespace {
constexpr size_t STACK = 256 * 1024;
ucontext_t scheduler;
std::vector<Fiber*> fibers;
Fiber* running = nullptr;
unsigned next_thread = 0, thread_count = 0;
Invoke invoke = nullptr;
void** arguments = nullptr;

// Runs threads one after another for as long as none waits.
void work() {
    for (;;) {
        Fiber* self = running;
        while (next_thread < thread_count) {
            self->thread = current_thread = next_thread++;
            invoke(arguments);
        }
        self->done = true;
        swapcontext(&self->context, &scheduler);
    }
}

void resume(Fiber* fiber) {
    running = fiber;
    current_thread = fiber->thread;
    swapcontext(&scheduler, &fiber->context);
}

Fiber* fiber(size_t index) {
    while (fibers.size() <= index) {
        Fiber* made = new Fiber;
        made->stack = static_cast<char*>(std::malloc(STACK));
        getcontext(&made->context);
        made->context.uc_stack.ss_sp = made->stack;
        made->context.uc_stack.ss_size = STACK;
        made->context.uc_link = nullptr;
        makecontext(&made->context, work, 0);
        fibers.push_back(made);
    }
    return fibers[index];
}

void run_block() {
    next_thread = 0;
    thread_count = block_size.x;
    size_t used = 0;
    while (next_thread < thread_count) {
        Fiber* begun = fiber(used++);
        begun->done = false;
        resume(begun);
    }
    for (bool waiting = true; waiting;) {
        waiting = false;
        for (size_t index = 0; index < used; index++) {
            if (!fibers[index]->done) {
                resume(fibers[index]);
                waiting = waiting || !fibers[index]->done;
            }
        }
    }
}
}  // namespace

void barrier() {
    Fiber* self = running;
    swapcontext(&self->context, &scheduler);
}
}  // namespace emulate

// 0 when the kernel ran, 1 when there is none of this name, 2 when its parameters are others than `count` of these sizes.
extern "C" int amp_emulated_launch(const char* name, const unsigned* grid, unsigned block, void** arguments, const size_t* sizes,
                                   size_t count) {
    auto found = emulate::kernels().find(name);
    if (found == emulate::kernels().end()) return 1;
    if (found->second.sizes != std::vector<size_t>(sizes, sizes + count)) return 2;
    emulate::invoke = found->second.invoke;
    emulate::arguments = arguments;
    emulate::grid_size = {grid[0], grid[1], grid[2]};
    emulate::block_size = {block, 1, 1};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                emulate::block_index = {x, y, z};
                emulate::run_block();
            }
    return 0;
}
