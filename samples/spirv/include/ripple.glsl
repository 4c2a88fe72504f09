float ripple(float height, float phase)
{
    float wave = sin(height + phase);
    return wave + height;
}
