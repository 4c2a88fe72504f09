// Builds as SYCL's runtime does: backends that are opened with dlopen, one program object for each image, and threads that build them at once
// and destroy them when the last reference goes. `sycl_like_host THREADS IMAGE...` builds every image (SPIR-V) in every thread with Level Zero,
// and a source text with OpenCL; a build that fails is an exception.
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <level_zero/ze_api.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

class Library {
public:
    explicit Library(const char *name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL))
    {
        if (!handle_)
            throw std::runtime_error(dlerror());
    }
    template <typename Function> Function *named(const char *name) const
    {
        return reinterpret_cast<Function *>(dlsym(handle_, name));
    }

private:
    void *handle_;
};

#define FROM(library, name) (library).named<decltype(name)>(#name)

class Program {
public:
    virtual ~Program() = default;
    virtual std::string kernels() const = 0;
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual std::shared_ptr<Program> build(const std::string &image) = 0;
};

class LevelZero : public Backend {
public:
    LevelZero() : loader_("libze_loader.so.1")
    {
        uint32_t one = 1;
        ze_driver_handle_t driver;
        ze_context_desc_t description{ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
        if (FROM(loader_, zeInit)(0) || FROM(loader_, zeDriverGet)(&one, &driver) || !one)
            throw std::runtime_error("no Level Zero driver");
        one = 1;
        FROM(loader_, zeDeviceGet)(driver, &one, &device_);
        FROM(loader_, zeContextCreate)(driver, &description, &context_);
    }

    std::shared_ptr<Program> build(const std::string &image) override
    {
        ze_module_desc_t description{};
        description.stype = ZE_STRUCTURE_TYPE_MODULE_DESC;
        description.format = ZE_MODULE_FORMAT_IL_SPIRV;
        description.inputSize = image.size();
        description.pInputModule = reinterpret_cast<const uint8_t *>(image.data());
        ze_module_handle_t module = nullptr;
        if (FROM(loader_, zeModuleCreate)(context_, device_, &description, &module, nullptr))
            throw std::invalid_argument("zeModuleCreate");
        return std::make_shared<Module>(loader_, module);
    }

private:
    class Module : public Program {
    public:
        Module(const Library &loader, ze_module_handle_t module) : loader_(loader), module_(module) {}
        ~Module() override { FROM(loader_, zeModuleDestroy)(module_); }
        std::string kernels() const override
        {
            uint32_t one = 1;
            const char *name = "";
            FROM(loader_, zeModuleGetKernelNames)(module_, &one, &name);
            return name;
        }

    private:
        const Library &loader_;
        ze_module_handle_t module_;
    };

    Library loader_;
    ze_device_handle_t device_ = nullptr;
    ze_context_handle_t context_ = nullptr;
};

class OpenCl : public Backend {
public:
    OpenCl() : loader_("libOpenCL.so.1")
    {
        cl_platform_id platform;
        if (FROM(loader_, clGetPlatformIDs)(1, &platform, nullptr) || FROM(loader_, clGetDeviceIDs)(platform, CL_DEVICE_TYPE_GPU, 1, &device_, nullptr))
            throw std::runtime_error("no OpenCL device");
        context_ = FROM(loader_, clCreateContext)(nullptr, 1, &device_, nullptr, nullptr, nullptr);
    }

    std::shared_ptr<Program> build(const std::string &source) override
    {
        const char *text = source.c_str();
        cl_program program = FROM(loader_, clCreateProgramWithSource)(context_, 1, &text, nullptr, nullptr);
        auto built = std::make_shared<Source>(loader_, program);
        if (FROM(loader_, clBuildProgram)(program, 1, &device_, "-g", nullptr, nullptr))
            throw std::invalid_argument("clBuildProgram");
        return built;
    }

private:
    class Source : public Program {
    public:
        Source(const Library &loader, cl_program program) : loader_(loader), program_(program) {}
        ~Source() override { FROM(loader_, clReleaseProgram)(program_); }
        std::string kernels() const override
        {
            char names[256] = "";
            FROM(loader_, clGetProgramInfo)(program_, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, nullptr);
            return names;
        }

    private:
        const Library &loader_;
        cl_program program_;
    };

    Library loader_;
    cl_device_id device_ = nullptr;
    cl_context context_ = nullptr;
};

std::string attempt(Backend &backend, const std::string &image)
{
    try {
        return "built " + backend.build(image)->kernels();
    } catch (const std::invalid_argument &error) {
        return std::string("failed ") + error.what();
    }
}

std::string read(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

int main(int count, char **arguments)
{
    const int threads = std::stoi(arguments[1]);
    LevelZero level_zero;
    OpenCl open_cl;
    std::vector<std::string> images, said;
    std::transform(arguments + 2, arguments + count, std::back_inserter(images), read);
    std::vector<std::future<std::string>> building;
    for (int thread = 0; thread < threads; thread++)
        for (const auto &image : images)
            building.push_back(std::async(std::launch::async, [&] { return attempt(level_zero, image); }));
    building.push_back(std::async(std::launch::async, [&] { return attempt(open_cl, "kernel void twice(global int *x) { x[get_global_id(0)] *= 2; }\n"); }));
    building.push_back(std::async(std::launch::async, [&] { return attempt(open_cl, "kernel void wrong(global int *x) { nothing }\n"); }));
    for (auto &each : building)
        said.push_back(each.get());
    std::sort(said.begin(), said.end());
    for (const auto &line : said)
        std::cout << line << '\n';
    std::cout.flush();
    _Exit(7); // the drivers' own threads are not waited for
}
