/** Only what needs no Lab is tested here; the rest is, in a real Lab, by tests/browser. */
module.exports = {
  testEnvironment: 'jsdom',
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  testMatch: ['<rootDir>/src/**/*.spec.{ts,tsx}'],
  transform: {
    '^.+\\.tsx?$': [
      'ts-jest',
      {
        tsconfig: {
          module: 'commonjs',
          moduleResolution: 'node10',
          jsx: 'react',
          target: 'ES2022',
          esModuleInterop: true,
          isolatedModules: true
        }
      }
    ]
  }
};
