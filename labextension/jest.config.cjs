/** Only what needs no Lab is tested here; the rest is, in a real Lab, by tests/browser. */
module.exports = {
  testEnvironment: 'jsdom',
  modulePathIgnorePatterns: ['<rootDir>/dist/'],
  testMatch: ['<rootDir>/src/**/*.spec.{ts,tsx}'],
  // That one is not made for Node.
  transformIgnorePatterns: ['/node_modules/(?!@jupyter-widgets/base/)'],
  transform: {
    '^.+\\.(tsx?|js)$': [
      'ts-jest',
      {
        tsconfig: {
          allowJs: true,
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
