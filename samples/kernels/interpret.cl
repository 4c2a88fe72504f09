// An interpreter: what a switch selects is inlined into a loop of a function that is inlined itself.

enum Operation { ADD, SUB, MUL, DIV, MIN, MAX, NEG, SQRT };

float apply(uint operation, float left, float right)
{
    switch (operation) {
    case ADD:
        return left + right;
    case SUB:
        return left - right;
    case MUL:
        return left * right;
    case DIV:
        return right == 0.0f ? 0.0f : left / right;
    case MIN:
        return fmin(left, right);
    case MAX:
        return fmax(left, right);
    case NEG:
        return -left;
    default:
        return sqrt(fabs(left));
    }
}

float run(global const uint *program, uint length, float start)
{
    float value = start;
    for (uint at = 0; at < length; ++at)
        value = apply(program[at] & 7, value, (float)(program[at] >> 3));
    return value;
}

kernel void interpret(global const uint *program, uint length, global float *values)
{
    uint i = get_global_id(0);
    values[i] = run(program, length, values[i]);
}

kernel void switcher(global const uint *what, global float *values)
{
    uint i = get_global_id(0);
    float first = apply(what[i] & 7, values[i], 2.0f);
    values[i] = apply(what[i] >> 3 & 7, first, 3.0f);
}
