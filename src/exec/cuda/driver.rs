//! The CUDA driver as a device, on Candle's `CudaDevice`.
